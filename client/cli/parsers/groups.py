"""The command line of ``ottla groups``."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, add_partition_argument, add_verbs, checked
from ottla.client.cli.places import PLACES, read_place

ALL_POSITIONS = "all that the group has a position for"


def parser() -> Parser:
    """The command line, as ``ottla groups --help`` shows it."""
    made = Parser(
        prog="ottla groups",
        description="Look at consumer groups and move their positions.",
        epilog="example: ottla groups describe billing",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    listing = verb("list", "list the groups", "--state Empty")
    listing.add_argument(
        "--state", action="append", default=[], help="only those in this state, such as Empty"
    )
    listing.add_argument(
        "--type", action="append", default=[], choices=("classic", "consumer"), help="only those"
    )
    described = verb("describe", "show members, positions and lag of groups", "billing")
    described.add_argument("groups", metavar="GROUP", nargs="+")
    explained = verb(
        "explain", "tell what has happened in a group: who joined, who left and why", "billing"
    )
    explained.add_argument("group", metavar="GROUP")
    delete = verb("delete", "delete empty groups and their positions", "billing")
    delete.add_argument("groups", metavar="GROUP", nargs="+")
    reset = verb(
        "reset-offsets", "let an empty group go on from somewhere else", "billing orders -o -100"
    )
    reset.add_argument("group", metavar="GROUP")
    add_partition_argument(reset, ALL_POSITIONS)
    reset.add_argument(
        "-o", "--offset", metavar="WHERE", type=checked(read_place), required=True, help=PLACES
    )
    reset.add_argument("--dry-run", action="store_true", help="only show what would be done")
    _add_seek(
        verb(
            "seek",
            "move an empty group to a place, to where another group stands, or as a file says",
            "billing --to @2026-01-31T12:00:00Z",
        )
    )
    forget = verb("delete-offsets", "forget positions of a group", "billing orders:0")
    forget.add_argument("group", metavar="GROUP")
    add_partition_argument(forget)
    return made


def _add_seek(seek: Parser) -> None:
    seek.add_argument("group", metavar="GROUP")
    add_partition_argument(seek, ALL_POSITIONS)
    where = seek.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="WHERE", type=checked(read_place), help=PLACES)
    where.add_argument("--to-group", metavar="GROUP", help="where that group stands now")
    where.add_argument(
        "--to-file",
        metavar="FILE",
        help="lines of TOPIC,PARTITION,OFFSET, as 'ottla offsets --csv' writes them; - for "
        "standard input",
    )
    seek.add_argument("--dry-run", action="store_true", help="only show what would be done")

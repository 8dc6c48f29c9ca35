"""The command line of ``ottla groups``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.arguments import Parser, add_partition_argument, add_verbs, checked
from ottla.client.cli.position_specs import POSITION_FORMS, read_position

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_POSITIONS = "all for which the group has committed offsets"


def parser() -> Parser:
    """The command line, as ``ottla groups --help`` shows it."""
    made = Parser(
        prog="ottla groups",
        description="Show consumer groups and change their committed offsets.",
        epilog="example: ottla groups describe billing",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    listing = verb("list", "list the groups", "--state Empty")
    listing.add_argument(
        "--state", action="append", default=[], help="only groups in this state, such as Empty"
    )
    listing.add_argument(
        "--type",
        action="append",
        default=[],
        choices=("classic", "consumer"),
        help="only groups of this type",
    )
    described = verb("describe", "show members, committed offsets and lag of groups", "billing")
    described.add_argument("groups", metavar="GROUP", nargs="+")
    explained = verb(
        "explain", "show the history of a group: which members joined or left, and why", "billing"
    )
    explained.add_argument("group", metavar="GROUP")
    delete = verb("delete", "delete empty groups and their committed offsets", "billing")
    delete.add_argument("groups", metavar="GROUP", nargs="+")
    reset = verb("reset-offsets", "the same as 'seek --to', with -o", "billing orders -o -100")
    reset.add_argument("group", metavar="GROUP")
    add_partition_argument(reset, ALL_POSITIONS)
    reset.add_argument(
        "-o",
        "--offset",
        metavar="WHERE",
        type=checked(read_position),
        required=True,
        help=POSITION_FORMS,
    )
    reset.add_argument(
        "--dry-run", action="store_true", help="show the changes without making them"
    )
    _add_seek(
        verb(
            "seek",
            "set the offsets of an empty group: to a position, from another group or from a file",
            "billing --to @2026-01-31T12:00:00Z",
        )
    )
    _add_migrate(verb)
    forget = verb("delete-offsets", "delete committed offsets of a group", "billing orders:0")
    forget.add_argument("group", metavar="GROUP")
    add_partition_argument(forget)
    return made


def _add_seek(seek: Parser) -> None:
    seek.add_argument("group", metavar="GROUP")
    add_partition_argument(seek, ALL_POSITIONS)
    where = seek.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="WHERE", type=checked(read_position), help=POSITION_FORMS)
    where.add_argument("--to-group", metavar="GROUP", help="the committed offsets of that group")
    where.add_argument(
        "--to-file",
        metavar="FILE",
        help="lines of TOPIC,PARTITION,OFFSET, as 'ottla offsets --csv' writes them; - for "
        "standard input",
    )
    seek.add_argument("--dry-run", action="store_true", help="show the changes without making them")


def _add_migrate(verb: Callable[..., Parser]) -> None:
    migrate = verb(
        "migrate",
        "copy the committed offsets of a group without members between ZooKeeper and Kafka",
        "billing --to kafka --zookeeper 127.0.0.1:2181",
    )
    migrate.add_argument("group", metavar="GROUP")
    migrate.add_argument(
        "--to", choices=("kafka", "zookeeper"), required=True, help="where the offsets are to be"
    )
    migrate.add_argument(
        "--zookeeper",
        metavar="HOST:PORT",
        required=True,
        help="the ZooKeeper of the group, as in zookeeper.connect",
    )
    migrate.add_argument(
        "--check",
        action="store_true",
        help="only compare both; the exit status is 1 if an offset is missing or older there",
    )

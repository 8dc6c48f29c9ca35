"""The command line of ``ottla transactions``."""

from __future__ import annotations

from ottla.client.cli.arguments import (
    Parser,
    add_partition_argument,
    add_verbs,
    checked,
    natural,
    one_partition,
    pattern,
)


def parser() -> Parser:
    """The command line, as ``ottla transactions --help`` shows it."""
    made = Parser(
        prog="ottla transactions",
        description="Show transactions, and end those that hang.",
        epilog="example: ottla transactions find-hanging",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    _add_filters(verb("list", "list transactional ids and their states", "--state Ongoing"))
    describe = verb("describe", "show transactions as their coordinators see them", "billing-1")
    describe.add_argument("ids", metavar="TRANSACTIONAL-ID", nargs="+")
    hanging = verb("find-hanging", "find transactions that no coordinator will ever end", "orders")
    add_partition_argument(hanging, "all")
    abort = verb(
        "abort", "end a hanging transaction in one partition", "orders:0 --first-offset 42"
    )
    abort.add_argument("partition", metavar="TOPIC:PARTITION", type=checked(one_partition))
    which = abort.add_mutually_exclusive_group()
    which.add_argument("--first-offset", metavar="N", type=checked(natural), help="where it begins")
    which.add_argument("--producer-id", metavar="N", type=checked(natural), help="whose it is")
    abort.add_argument(
        "--force",
        action="store_true",
        help="end it even if its coordinator knows it: it stays whole in other partitions, and may "
        "be committed there",
    )
    blamed = verb(
        "blame",
        "show what keeps readers of committed records from the end of a partition",
        "orders:0",
    )
    blamed.add_argument("partition", metavar="TOPIC:PARTITION", type=checked(one_partition))
    return made


def _add_filters(listing: Parser) -> None:
    listing.add_argument(
        "--state", action="append", default=[], help="only those in this state, such as Ongoing"
    )
    listing.add_argument(
        "--producer-id",
        metavar="N",
        action="append",
        default=[],
        type=checked(natural),
        help="only that of this producer",
    )
    listing.add_argument(
        "--longer-than",
        metavar="MS",
        type=checked(natural),
        help="only those open for longer than that many milliseconds",
    )
    listing.add_argument(
        "--id",
        metavar="REGEX",
        type=checked(pattern),
        help="only those whose id matches as a whole",
    )

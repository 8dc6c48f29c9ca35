"""The command line of ``ottla trace``."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, add_verbs


def parser() -> Parser:
    """The command line, as ``ottla trace --help`` shows it."""
    made = Parser(
        prog="ottla trace",
        description="Show when a record came, reached the replicas, became visible and was "
        "committed past.",
        epilog="example: ottla trace record orders 0 1234",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    record = verb("record", "show the way of one record through the cluster", "orders 0 1234")
    record.add_argument("topic", metavar="TOPIC", help="the topic")
    record.add_argument("partition", metavar="PARTITION", type=int, help="the partition's number")
    record.add_argument("offset", metavar="OFFSET", type=int, help="the record's offset")
    record.add_argument(
        "--no-groups",
        action="store_true",
        help="do not read the topic of commits, which takes long where there are many",
    )
    return made

"""The command line of ``ottla trace``."""

from __future__ import annotations

from ottla.client.cli.arguments import (
    Parser,
    add_verbs,
    checked,
    header,
    natural,
    partition_number,
    seconds,
)


def parser() -> Parser:
    """The command line, as ``ottla trace --help`` shows it."""
    made = Parser(
        prog="ottla trace",
        description="Show when a record came, reached the replicas, became visible and was "
        "committed past, or send one request and show when which broker did what.",
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
    _add_produce(verb("produce", "send one record and show each step of its way", "orders -p 0"))
    _add_fetch(verb("fetch", "send one fetch and show each step of its way", "orders -p 0 -o 1234"))
    return made


def _add_produce(produce: Parser) -> None:
    _add_place(produce)
    produce.add_argument("-k", "--key", metavar="TEXT", help="the record's key (default: null)")
    produce.add_argument(
        "-v",
        "--value",
        metavar="TEXT",
        default="sent by ottla trace",
        help="the record's value (default: 'sent by ottla trace'); consumers get it",
    )
    produce.add_argument(
        "-H",
        "--header",
        dest="headers",
        metavar="NAME=VALUE",
        type=checked(header),
        action="append",
        default=[],
        help="a header of the record, such as traceparent=00-...; may be given several times",
    )
    produce.add_argument(
        "--acks",
        choices=("1", "all"),
        default="all",
        help="whose acknowledgement the answer waits for (default all)",
    )
    _add_timeout(produce, 10, "seconds that the broker may wait for its followers (default 10)")


def _add_fetch(fetch: Parser) -> None:
    _add_place(fetch)
    fetch.add_argument(
        "-o",
        "--offset",
        metavar="OFFSET",
        type=checked(natural),
        required=True,
        help="where to begin; at the end of the partition the request waits for a record",
    )
    _add_timeout(fetch, 5, "seconds that the broker may wait for a record (default 5)")


def _add_place(verb: Parser) -> None:
    verb.add_argument("topic", metavar="TOPIC", help="the topic")
    verb.add_argument(
        "-p",
        "--partition",
        metavar="P",
        type=checked(partition_number),
        default=0,
        help="the partition's number (default 0)",
    )


def _add_timeout(verb: Parser, default: int, text: str) -> None:
    verb.add_argument(
        "--timeout", metavar="SECONDS", type=checked(seconds), default=default, help=text
    )

"""The command lines of ``ottla reassign`` and ``ottla elect``."""

from __future__ import annotations

from ottla.client.cli.arguments import (
    Parser,
    add_client_options,
    add_partition_argument,
    add_verbs,
    checked,
    node_ids,
    one_line_parser,
)
from ottla.client.cli.parsers.broker import add_throttle_option


def reassign_parser() -> Parser:
    """The command line, as ``ottla reassign --help`` shows it."""
    made = Parser(
        prog="ottla reassign",
        description="Move replicas.",
        epilog="example: ottla reassign generate orders --brokers 2,3 > plan.json",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    generate = verb(
        "generate", "write a plan that spreads topics evenly over brokers", "orders --brokers 2,3"
    )
    generate.add_argument("topics", metavar="TOPIC", nargs="+")
    generate.add_argument(
        "--brokers",
        metavar="ID,ID",
        type=checked(node_ids),
        help="the brokers to use (default: all live ones)",
    )
    for name, purpose in (
        ("execute", "begin the moves of a plan"),
        (
            "verify",
            "show which moves of a plan are complete, status 1 while one is not; then remove their "
            "throttle",
        ),
        ("cancel", "cancel the moves of a plan"),
    ):
        inner = verb(name, purpose, "plan.json")
        inner.add_argument("plan", metavar="FILE", help="the plan; - for standard input")
        if name == "execute":
            add_throttle_option(inner)
    return made


def elect_parser() -> Parser:
    """The command line, as ``ottla elect --help`` shows it."""
    made = one_line_parser(
        "elect",
        "Make the first replica of each partition its leader, where it is in sync.",
        "elect orders:0,1",
    )
    add_client_options(made)
    add_partition_argument(made, "all")
    made.add_argument(
        "--unclean",
        action="store_true",
        help="elect any live replica if none in sync is left: records that it lacks are lost",
    )
    return made

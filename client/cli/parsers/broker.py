"""The command line of ``ottla broker``."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, add_verbs, byte_rate, checked, node_id, node_ids
from ottla.client.cli.parsers.topics import add_delete_option, add_setting_option


def parser() -> Parser:
    """The command line, as ``ottla broker --help`` shows it."""
    made = Parser(
        prog="ottla broker",
        description="Drain a broker, and show and change its settings and log levels.",
        epilog="example: ottla broker drain 3",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    drain = verb("drain", "move all replicas of a broker to others, and wait", "3 --throttle 20M")
    _add_id(drain)
    drain.add_argument(
        "--brokers",
        metavar="ID,ID",
        type=checked(node_ids),
        help="the brokers that take the replicas (default: all others)",
    )
    add_throttle_option(drain)
    drain.add_argument(
        "--dry-run", action="store_true", help="write the plan, as for 'ottla reassign execute'"
    )
    config = verb("config", "show or change settings of a broker", "1 -c log.retention.ms=86400000")
    config.add_argument(
        "name", metavar="ID", help="the broker's id, or 'default' for the defaults of all brokers"
    )
    config.add_argument("keys", metavar="KEY", nargs="*", help="show these settings only")
    config.add_argument(
        "-a", "--all", action="store_true", help="also show settings that have their default value"
    )
    add_setting_option(config)
    add_delete_option(config)
    config.add_argument(
        "--dry-run", action="store_true", help="only check whether a change would succeed"
    )
    level = verb(
        "log-level",
        "show or change the levels of a broker's loggers, until its restart",
        "1 ottla.replication=DEBUG",
    )
    _add_id(level)
    level.add_argument(
        "loggers",
        metavar="LOGGER[=LEVEL]",
        nargs="*",
        help="a logger to show, or its new level: TRACE, DEBUG, INFO, WARN, ERROR or FATAL "
        "(default: show all)",
    )
    level.add_argument(
        "-d",
        "--reset",
        metavar="LOGGER",
        action="append",
        default=[],
        help="go back to the level that the logger had at the start",
    )
    return made


def add_throttle_option(verb: Parser) -> None:
    """Add ``--throttle RATE``."""
    verb.add_argument(
        "--throttle",
        metavar="RATE",
        type=checked(byte_rate),
        help="bytes per second that each broker may send, and receive, for these moves, such as "
        "500K or 20M (default: no limit)",
    )


def _add_id(verb: Parser) -> None:
    verb.add_argument("broker", metavar="ID", type=checked(node_id), help="the broker's id")

"""The command line of ``ottla configs``."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, add_verbs, checked, setting
from ottla.client.cli.parsers.topics import add_delete_option, add_setting_option


def parser() -> Parser:
    """The command line, as ``ottla configs --help`` shows it."""
    made = Parser(
        prog="ottla configs",
        description="Look at settings of topics, brokers and groups, and change them.",
        epilog="example: ottla configs alter topic orders -c retention.ms=3600000",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    describe = verb("describe", "show settings", "broker 1 log.retention.ms")
    _add_resource(describe)
    describe.add_argument("keys", metavar="KEY", nargs="*", help="these only")
    describe.add_argument(
        "-a", "--all", action="store_true", help="also settings that have their default value"
    )
    alter = verb("alter", "change settings", "topic orders -c retention.ms=3600000")
    _add_resource(alter)
    add_setting_option(alter)
    add_delete_option(alter)
    for option, word in (("--append", "add to"), ("--subtract", "take from")):
        alter.add_argument(
            option,
            metavar="KEY=VALUE",
            action="append",
            default=[],
            type=checked(setting),
            help=f"{word} a setting that is a list",
        )
    alter.add_argument("--dry-run", action="store_true", help="only check whether it would succeed")
    listed = verb("list", "list the subscriptions to metrics of clients", "client-metrics")
    listed.add_argument("resource", choices=("client-metrics",), help="of what")
    return made


def _add_resource(verb: Parser) -> None:
    verb.add_argument(
        "resource", choices=("topic", "broker", "group", "client-metrics"), help="of what"
    )
    verb.add_argument(
        "name",
        metavar="NAME",
        help="the topic, group, subscription or broker id; 'default' for all brokers",
    )

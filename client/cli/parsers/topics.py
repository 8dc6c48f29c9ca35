"""The command line of ``ottla topics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.arguments import (
    Parser,
    add_partition_argument,
    add_verbs,
    checked,
    partition_count,
    replica_count,
    setting,
)
from ottla.client.cli.position_specs import read_position

if TYPE_CHECKING:
    from collections.abc import Callable

    AddVerb = Callable[[str, str, str], Parser]


def parser() -> Parser:
    """The command line, as ``ottla topics --help`` shows it."""
    made = Parser(
        prog="ottla topics",
        description="Create, list and change topics.",
        epilog="example: ottla topics create orders -p 12 -r 3",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    _add_create(verb)
    listing = verb("list", "list the topics", "--internal")
    listing.add_argument("-i", "--internal", action="store_true", help="also internal topics")
    listing.add_argument(
        "-s",
        "--sizes",
        action="store_true",
        help="also the bytes of one copy of each topic, and of all its replicas",
    )
    described = verb("describe", "show partitions, offsets and settings of topics", "orders")
    described.add_argument("topics", metavar="TOPIC", nargs="+")
    _add_changes(verb)
    trim = verb("trim", "delete the oldest records of partitions", "orders:0,1 -o -1000")
    add_partition_argument(trim)
    trim.add_argument(
        "-o",
        "--offset",
        metavar="WHERE",
        type=checked(read_position),
        required=True,
        help="the first record to keep: N, -N (before the end), end (keep none), @MS or @ISO-8601",
    )
    trim.add_argument("--dry-run", action="store_true", help="show the changes without making them")
    delete = verb("delete", "delete topics and all their records", "orders payments")
    delete.add_argument("topics", metavar="TOPIC", nargs="+")
    delete.add_argument("--if-exists", action="store_true", help="no error if it does not exist")
    return made


def _add_create(verb: AddVerb) -> None:
    create = verb("create", "create topics", "orders -p 12 -r 3 -c retention.ms=86400000")
    create.add_argument("topics", metavar="TOPIC", nargs="+")
    create.add_argument(
        "-p", "--partitions", type=checked(partition_count), default=-1, help="how many partitions"
    )
    create.add_argument(
        "-r", "--replicas", type=checked(replica_count), default=-1, help="how many copies of each"
    )
    add_setting_option(create)
    create.add_argument("--if-not-exists", action="store_true", help="no error if it exists")
    create.add_argument(
        "--dry-run", action="store_true", help="only check whether it would succeed"
    )


def _add_changes(verb: AddVerb) -> None:
    alter = verb(
        "alter", "add partitions to a topic or change its settings", "orders -p 24 -d retention.ms"
    )
    alter.add_argument("topic", metavar="TOPIC")
    alter.add_argument(
        "-p",
        "--partitions",
        type=checked(partition_count),
        help="the new number of partitions",
    )
    add_setting_option(alter)
    add_delete_option(alter)
    altered = verb(
        "alter-config", "change settings of several topics", "orders -c cleanup.policy=compact"
    )
    altered.add_argument("topics", metavar="TOPIC", nargs="+")
    add_setting_option(altered)
    add_delete_option(altered)
    more = verb("add-partitions", "add N partitions to each of several topics", "orders -n 4")
    more.add_argument("topics", metavar="TOPIC", nargs="+")
    more.add_argument(
        "-n",
        "--number",
        metavar="N",
        type=checked(partition_count),
        required=True,
        help="how many to add",
    )


def add_setting_option(parser: Parser) -> None:
    """Add ``-c key=value``, any number of them."""
    parser.add_argument(
        "-c",
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        type=checked(setting),
        help="a setting, such as retention.ms=60000",
    )


def add_delete_option(parser: Parser) -> None:
    """Add ``-d key``, any number of them."""
    parser.add_argument(
        "-d",
        "--delete-config",
        metavar="KEY",
        action="append",
        default=[],
        help="go back to the default of this setting",
    )

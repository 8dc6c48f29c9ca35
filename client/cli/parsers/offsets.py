"""The command line of ``ottla offsets``."""

from __future__ import annotations

from ottla.client.cli.arguments import (
    Parser,
    add_client_options,
    add_partition_argument,
    checked,
    one_line_parser,
)
from ottla.client.cli.position_specs import POSITION_FORMS, read_position


def parser() -> Parser:
    """The command line, as ``ottla offsets --help`` shows it."""
    made = one_line_parser(
        "offsets",
        "Show the first and last offsets of partitions, or those of a position.",
        "offsets orders -o @2026-01-31T12:00:00Z",
    )
    add_client_options(made)
    add_partition_argument(made, "all topics but internal ones")
    made.add_argument(
        "-o", "--offset", metavar="WHERE", type=checked(read_position), help=POSITION_FORMS
    )
    made.add_argument("-g", "--group", metavar="GROUP", help="the committed offsets of this group")
    made.add_argument(
        "--csv",
        action="store_true",
        help="lines of TOPIC,PARTITION,OFFSET, which 'ottla groups seek --to-file' takes; without "
        "-o and -g, of the ends",
    )
    made.add_argument(
        "--read-committed",
        action="store_true",
        help="the end is where the first open transaction begins",
    )
    return made

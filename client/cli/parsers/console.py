"""The command line of ``ottla console``."""

from __future__ import annotations

import argparse

from ottla.client.cli.arguments import Parser, add_client_options, checked, host, port

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080


def parser() -> Parser:
    """The command line, as ``ottla console --help`` shows it."""
    made = Parser(
        prog="ottla console",
        description="Serve web pages that show a cluster.",
        epilog="example: ottla console -b 127.0.0.1:9092 --port 8080",
        allow_abbrev=False,
    )
    add_client_options(made)
    made.add_argument(
        "--host",
        type=checked(host),
        default=DEFAULT_HOST,
        help=f"address to listen on (default {DEFAULT_HOST})",
    )
    made.add_argument(
        "--port",
        type=checked(port),
        default=DEFAULT_PORT,
        help=f"port to listen on, 0 for a free one (default {DEFAULT_PORT})",
    )
    made.add_argument(
        "--allow-host",
        metavar="NAME",
        type=checked(host),
        action="append",
        default=[],
        help="a name under which browsers reach the console, besides localhost and numeric "
        "addresses; may be given several times",
    )
    made.add_argument(
        "--schema-registry",
        metavar="URL",
        help="show keys and values in the Confluent wire format as JSON, by the schemas of this "
        "registry, as 'ottla consume --schema-registry' does",
    )
    made.add_argument(
        "--allow-changes",
        action="store_true",
        help="let visitors create topics, change settings, send records and move the positions "
        "of groups (default: they only look)",
    )
    made.add_argument(
        "--login",
        action="store_true",
        help="let each visitor log in as a user of the cluster, even if the settings name a user",
    )
    # The end of standard input ends it: for a process that starts the console and may be killed.
    made.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)
    return made

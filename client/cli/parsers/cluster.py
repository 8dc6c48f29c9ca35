"""The command line of ``ottla cluster``."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, add_verbs, checked, node_id, node_ids


def parser() -> Parser:
    """The command line, as ``ottla cluster --help`` shows it."""
    made = Parser(
        prog="ottla cluster",
        description="Look at a cluster, and forget brokers that will not come back.",
        epilog="example: ottla cluster describe",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    described = verb(
        "describe", "show the brokers, and partitions that lack a leader or replicas", ""
    )
    described.add_argument(
        "-i", "--internal", action="store_true", help="also list partitions of internal topics"
    )
    verb("info", "show the cluster's id, its size, its controller and its brokers", "--json")
    verb("health", "check the cluster; status 1 if something is wrong", "--json")
    versions = verb("api-versions", "show which request versions brokers accept", "--brokers 1")
    _add_brokers(versions)
    directories = verb(
        "log-dirs", "show which replicas are on which disk, with their sizes", "orders"
    )
    directories.add_argument("topics", metavar="TOPIC", nargs="*", help="these topics only")
    _add_brokers(directories)
    directories.add_argument(
        "-p", "--partitions", action="store_true", help="a line for each partition"
    )
    forgotten = verb("unregister", "forget a broker that will not come back", "3")
    forgotten.add_argument(
        "broker", metavar="ID", type=checked(node_id), help="the broker's id; it must be stopped"
    )
    return made


def _add_brokers(verb: Parser) -> None:
    verb.add_argument(
        "--brokers", metavar="ID,ID", type=checked(node_ids), help="these only (default: all)"
    )

"""The command line of ``ottla mirror``."""

from __future__ import annotations

from ottla.client.cli.arguments import (
    Parser,
    add_verbs,
    checked,
    name_or_pattern,
    natural,
    one_partition,
    positive,
    replica_count,
    setting,
)

ALIAS_HELP = "what the mirror calls the source"


def source(text: str) -> tuple[str, str]:
    """Read ``ALIAS=HOST:PORT``. Raises ValueError."""
    alias, equals, address = text.partition("=")
    if not equals or not alias or not address:
        raise ValueError(f"{text!r} is not of the form ALIAS=HOST:PORT")
    return alias, address


def parser() -> Parser:
    """The command line, as ``ottla mirror --help`` shows it."""
    made = Parser(
        prog="ottla mirror",
        description="Copy topics of other clusters into this one, and translate offsets.",
        epilog="example: ottla mirror run -b central:9092 --from west=west:9092 orders",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    _add_run(
        verb(
            "run",
            "copy topics of other clusters into this one until stopped",
            "-b central:9092 --from west=west:9092 --from east=east:9092 '^orders'",
        )
    )
    translate = verb(
        "translate", "show where a source's offset is on this cluster", "west orders:0 1234"
    )
    translate.add_argument("alias", metavar="ALIAS", help=ALIAS_HELP)
    translate.add_argument(
        "partition",
        metavar="TOPIC:PARTITION",
        type=checked(one_partition),
        help="as the source names it",
    )
    translate.add_argument("offset", metavar="OFFSET", type=checked(natural), help="on the source")
    groups = verb(
        "groups",
        "copy the positions of a source's groups to this cluster",
        "--from west=west:9092 billing",
    )
    groups.add_argument("groups", metavar="GROUP", nargs="+", help="a group, or ^REGEX")
    groups.add_argument(
        "--from",
        dest="source",
        metavar="ALIAS=HOST:PORT",
        type=checked(source),
        required=True,
        help="the source of the groups, named as in the mirror",
    )
    _add_source_config(groups)
    groups.add_argument(
        "--dry-run", action="store_true", help="show the changes without making them"
    )
    return made


def _add_source_config(verb: Parser) -> None:
    verb.add_argument(
        "--from-config",
        dest="source_configs",
        metavar="ALIAS=FILE",
        type=checked(setting),
        action="append",
        default=[],
        help="a properties file with settings for the clients of that source; --command-config is "
        "for those of the target",
    )


def _add_run(run: Parser) -> None:
    run.add_argument(
        "topics",
        metavar="TOPIC",
        type=checked(name_or_pattern),
        nargs="*",
        help="a topic to copy from every source of the command line, or ^REGEX for all that match",
    )
    run.add_argument(
        "--from",
        dest="sources",
        metavar="ALIAS=HOST:PORT",
        type=checked(source),
        action="append",
        default=[],
        help="a cluster to copy from, and what to call it; may be given several times",
    )
    _add_source_config(run)
    run.add_argument("--file", metavar="FILE", help="read all settings from this TOML file")
    run.add_argument(
        "-x",
        "--exclude",
        metavar="TOPIC",
        type=checked(name_or_pattern),
        action="append",
        default=[],
        help="leave out this topic, or ^REGEX; may be given several times",
    )
    run.add_argument(
        "--rename",
        metavar="PATTERN",
        default="{topic}",
        help="the name on the target, made of {topic} and {source} (default {topic})",
    )
    run.add_argument(
        "--name",
        metavar="NAME",
        default="mirror",
        help="the name by which a restarted mirror finds its positions (default mirror)",
    )
    run.add_argument(
        "--exactly-once",
        action="store_true",
        help="copy in transactions, no record twice; one process for each source",
    )
    run.add_argument(
        "--mark",
        action="store_true",
        help="add a header that says where a record has been, and leave out those that come from "
        "the target: for mirrors in both directions",
    )
    run.add_argument(
        "--no-grow",
        dest="grow",
        action="store_false",
        help="fail where a topic of the target would need more partitions",
    )
    _add_numbers(run)
    run.add_argument(
        "-e", "--exit", action="store_true", help="stop at the current end, do not wait for more"
    )


def _add_numbers(run: Parser) -> None:
    run.add_argument(
        "-z",
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="how to compress on the way to the target (default none)",
    )
    run.add_argument(
        "--replication-factor",
        metavar="N",
        type=checked(replica_count),
        default=-1,
        help="of topics that are made on the target (default: as its brokers say)",
    )
    run.add_argument(
        "--sync-groups",
        metavar="GROUP",
        type=checked(name_or_pattern),
        action="append",
        default=[],
        help="keep positions of this group, or ^REGEX, on the target; may be given several times",
    )
    run.add_argument(
        "--refresh",
        metavar="SECONDS",
        type=checked(positive),
        default=30,
        help="how often to look for new topics and partitions (default 30)",
    )
    run.add_argument(
        "--report",
        metavar="SECONDS",
        type=checked(positive),
        default=10,
        help="how often to report the progress (default 10)",
    )
    run.add_argument(
        "--session-timeout",
        metavar="SECONDS",
        type=checked(positive),
        default=45,
        help="how long the source waits for a mirror that died before another one continues "
        "(default 45)",
    )

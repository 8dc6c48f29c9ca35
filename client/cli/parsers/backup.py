"""The command line of ``ottla backup``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.arguments import (
    Parser,
    add_verbs,
    checked,
    name_or_pattern,
    natural,
    positive,
    replica_count,
    seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = ("acls", "quotas", "users")


def parser() -> Parser:
    """The command line, as ``ottla backup --help`` shows it."""
    made = Parser(
        prog="ottla backup",
        description="Copy topics, positions of groups and settings to a directory or an "
        "S3-compatible store, and restore them.",
        epilog="example: ottla backup create -b kafka:9092 /var/backups/kafka",
        allow_abbrev=False,
    )
    verb = add_verbs(made)
    create = verb(
        "create",
        "copy what is new since the last backup there, or finish one that was interrupted",
        "s3://backups/kafka --with acls --with quotas",
    )
    _add_place(create)
    _add_selection(create, "copy")
    create.add_argument(
        "--transaction-wait",
        metavar="SECONDS",
        type=checked(seconds),
        default=30,
        help="how long to look for a moment at which no transaction is half committed (default 30)",
    )
    create.add_argument(
        "--may-split",
        action="store_true",
        help="go on if there is no such moment: a transaction over several partitions may then be "
        "in the backup in part",
    )
    _add_place(verb("list", "show the backups", "/var/backups/kafka"))
    _add_prune(
        verb(
            "prune",
            "delete old backups, and files with records that no other one needs",
            "/var/backups/kafka --keep 7",
        )
    )
    verify = verb(
        "verify",
        "compare a backup with the cluster, record by record",
        "/var/backups/kafka --files-only",
    )
    _add_place(verify)
    _add_number(verify)
    _add_topics(verify, "compare")
    verify.add_argument(
        "--files-only",
        action="store_true",
        help="check only the files by their checksums; needs no cluster",
    )
    _add_restore(verb)
    return made


def _add_restore(verb: Callable[[str, str, str], Parser]) -> None:
    restore = verb(
        "restore",
        "restore a backup into a cluster that lacks its topics",
        "-b new:9092 /var/backups/kafka",
    )
    _add_place(restore)
    _add_number(restore)
    _add_selection(restore, "restore")
    restore.add_argument(
        "--replication-factor",
        metavar="N",
        type=checked(replica_count),
        help="of the restored topics (default: as they had, at most the number of brokers)",
    )
    restore.add_argument(
        "--fill-max",
        metavar="N",
        type=checked(natural),
        default=100_000_000,
        help="keep offsets by filling deleted beginnings of up to N records (default 100000000); "
        "partitions with longer ones begin at offset 0",
    )


def _add_prune(prune: Parser) -> None:
    _add_place(prune)
    prune.add_argument(
        "--keep",
        metavar="N",
        type=checked(positive),
        required=True,
        help="how many of the newest backups stay",
    )
    prune.add_argument("--dry-run", action="store_true", help="only say what would be deleted")


def _add_place(verb: Parser) -> None:
    verb.add_argument("place", metavar="DIR", help="a directory, or s3://BUCKET/PREFIX")
    verb.add_argument(
        "--s3-endpoint",
        metavar="URL",
        help="the address of an S3-compatible store that is not Amazon's",
    )


def _add_number(verb: Parser) -> None:
    verb.add_argument(
        "-n",
        "--number",
        metavar="N",
        type=checked(positive),
        help="which backup, as 'ottla backup list' shows them (default: the newest)",
    )


def _add_topics(verb: Parser, what: str) -> None:
    verb.add_argument(
        "-t",
        "--topic",
        dest="topics",
        metavar="TOPIC",
        type=checked(name_or_pattern),
        action="append",
        help=f"{what} this topic, or ^REGEX; may be given several times (default: all)",
    )


def _add_selection(verb: Parser, what: str) -> None:
    _add_topics(verb, what)
    verb.add_argument(
        "-x",
        "--exclude",
        metavar="TOPIC",
        type=checked(name_or_pattern),
        action="append",
        default=[],
        help="leave out this topic, or ^REGEX; may be given several times",
    )
    verb.add_argument(
        "-g",
        "--group",
        dest="groups",
        metavar="GROUP",
        type=checked(name_or_pattern),
        action="append",
        help=f"{what} positions of this group, or ^REGEX; may be given several times "
        "(default: all)",
    )
    verb.add_argument(
        "--with",
        dest="parts",
        choices=PARTS,
        action="append",
        default=[],
        help=f"{what} this as well; of users only names, because no cluster gives passwords",
    )

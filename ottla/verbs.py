"""Lists the verbs of the ``ottla`` command: how each is loaded, and its purpose.

No verb's module is loaded before it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla import verb_loaders as loaders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.verb_loaders import Main, MakeParser


class Verb:
    """A verb: loaders of its parser and its function, and its purpose in half a line."""

    # A plain class: making a named tuple takes longer than everything else in this file.
    __slots__ = ("load_main", "load_parser", "purpose")

    def __init__(
        self, load_parser: Callable[[], MakeParser], load_main: Callable[[], Main], purpose: str
    ) -> None:
        self.load_parser = load_parser
        self.load_main = load_main
        self.purpose = purpose


VERBS = {
    "start": Verb(loaders.start_parser, loaders.start, "run a broker"),
    "topics": Verb(
        loaders.topics_parser, loaders.topics, "create, list, describe, alter, trim, delete topics"
    ),
    "produce": Verb(
        loaders.produce_parser, loaders.produce, "send lines, files or JSON to a topic"
    ),
    "consume": Verb(
        loaders.consume_parser, loaders.consume, "write the records of topics as lines or JSON"
    ),
    "groups": Verb(
        loaders.groups_parser, loaders.groups, "show consumer groups, change their offsets"
    ),
    "offsets": Verb(
        loaders.offsets_parser, loaders.offsets, "show offsets of partitions, also by time"
    ),
    "trace": Verb(
        loaders.trace_parser, loaders.trace, "follow a record or a request to the replicas"
    ),
    "configs": Verb(
        loaders.configs_parser,
        loaders.configs,
        "show and change settings of topics, brokers and groups",
    ),
    "transactions": Verb(
        loaders.transactions_parser,
        loaders.transactions,
        "show transactions, abort those that hang",
    ),
    "cluster": Verb(
        loaders.cluster_parser, loaders.cluster, "show brokers, their health, disks and versions"
    ),
    "broker": Verb(
        loaders.broker_parser, loaders.broker, "drain a broker, show and change its log levels"
    ),
    "features": Verb(
        loaders.features_parser, loaders.features, "show and change the feature levels of a cluster"
    ),
    "quotas": Verb(
        loaders.quotas_parser,
        loaders.quotas,
        "limit how much users, client ids and addresses may do",
    ),
    "users": Verb(
        loaders.users_parser,
        loaders.users,
        "create, list and delete users that log in with SCRAM",
    ),
    "secure": Verb(
        loaders.secure_parser,
        loaders.secure,
        "make certificates and passwords for a secure cluster",
    ),
    "tokens": Verb(
        loaders.tokens_parser,
        loaders.tokens,
        "create, renew, expire and list delegation tokens",
    ),
    "acls": Verb(loaders.acls_parser, loaders.acls, "list, add, remove and explain access rules"),
    "reassign": Verb(
        loaders.reassign_parser, loaders.reassign, "move replicas from broker to broker"
    ),
    "elect": Verb(loaders.elect_parser, loaders.elect, "elect preferred or unclean leaders"),
    "mirror": Verb(
        loaders.mirror_parser, loaders.mirror, "copy topics from other clusters into this one"
    ),
    "backup": Verb(
        loaders.backup_parser,
        loaders.backup,
        "copy topics and settings to a directory or a store, restore them",
    ),
    "spark": Verb(loaders.spark_parser, loaders.spark, "run pipelines on Apache Spark"),
    "profile": Verb(
        loaders.profile_parser,
        loaders.profile,
        "keep the address and settings of a cluster in a file",
    ),
    "perf": Verb(loaders.perf_parser, loaders.perf, "measure how fast a cluster is"),
    "console": Verb(loaders.console_parser, loaders.console, "serve web pages that show a cluster"),
    "doctor": Verb(
        loaders.doctor_parser, loaders.doctor, "find what is wrong here, and say what to do"
    ),
    "log": Verb(loaders.log_parser, loaders.log, "look into the files of a stopped broker"),
    "completion": Verb(
        loaders.completion_parser,
        loaders.completion,
        "let a shell complete these verbs and their options",
    ),
}
# Options that every client verb knows, so that they may come first, and take a value.
VALUE_OPTIONS = (
    "-b",
    "--bootstrap",
    "--bootstrap-server",
    "--command-config",
    "--format",
    "--profile",
    "--property",
    "-X",
)


def known_as(name: str) -> str | None:
    """The verb of that name, also in the singular or plural: ``topic`` is ``topics``."""
    candidates = (name, f"{name}s", name.removesuffix("s"))
    return next((one for one in candidates if one in VERBS), None)


def split(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The verb, and all other arguments in their order."""
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if not argument.startswith("-"):
            return argument, [*arguments[:position], *arguments[position + 1 :]]
        position += 2 if argument in VALUE_OPTIONS else 1
    return None, list(arguments)

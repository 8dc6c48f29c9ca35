"""Lists the verbs of the ``ottla`` command: their modules and purposes.

No verb's module is loaded before it is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Verb(NamedTuple):
    """A verb: its parser and function, as ``module:function``, and its purpose in half a line."""

    parser: str
    place: str
    purpose: str


# Verbs whose module is in a folder with others of its subject.
_ROOMS = {
    name: f"{room}."
    for room, names in (
        ("records", ("produce", "consume", "perf")),
        ("groups", ("groups", "offsets")),
        ("transactions", ("transactions",)),
        (
            "cluster",
            ("topics", "configs", "cluster", "features", "quotas", "acls", "reassign", "elect"),
        ),
    )
    for name in names
}


def _client(name: str, purpose: str, parser: str = "") -> Verb:
    """A verb whose modules have its name."""
    return Verb(
        f"ottla.client.cli.parsers.{parser or f'{name}:parser'}",
        f"ottla.client.cli.{_ROOMS.get(name, '')}{name}:main",
        purpose,
    )


def _broker(name: str, purpose: str) -> Verb:
    """A verb that needs a broker's code."""
    return Verb(f"ottla.broker.cli.parsers:{name}_parser", f"ottla.broker.cli.{name}:main", purpose)


VERBS = {
    "start": _broker("start", "run a broker"),
    "topics": _client("topics", "create, list, describe, alter, trim, delete topics"),
    "produce": _client("produce", "send lines, files or JSON to a topic"),
    "consume": _client("consume", "write the records of topics as lines or JSON"),
    "groups": _client("groups", "show consumer groups, change their offsets"),
    "offsets": _client("offsets", "show offsets of partitions, also by time"),
    "configs": _client("configs", "show and change settings of topics, brokers and groups"),
    "acls": _client("acls", "list, add, remove and explain access rules"),
    "transactions": _client("transactions", "show transactions, abort those that hang"),
    "cluster": _client("cluster", "show brokers, their health, disks and versions"),
    "features": _client("features", "show and change the feature levels of a cluster"),
    "quotas": _client("quotas", "limit how much users, client ids and addresses may do"),
    "reassign": _client(
        "reassign", "move replicas from broker to broker", "placements:reassign_parser"
    ),
    "elect": _client("elect", "elect preferred or unclean leaders", "placements:elect_parser"),
    "mirror": _client("mirror", "copy topics from other clusters into this one"),
    "spark": _client("spark", "run pipelines on Apache Spark"),
    "profile": _client("profile", "keep the address and settings of a cluster in a file"),
    "perf": _client("perf", "measure how fast a cluster is"),
    "doctor": _broker("doctor", "find what is wrong here, and say what to do"),
    "log": _broker("log", "look into the files of a stopped broker"),
    "completion": Verb(
        "ottla.client.cli.parsers.completion:parser",
        "ottla.completion:main",
        "let a shell complete these verbs and their options",
    ),
}
# Options that every client verb knows, so that they may come first, and take a value.
VALUE_OPTIONS = (
    "-b",
    "--bootstrap",
    "--command-config",
    "--format",
    "--profile",
    "--property",
    "-X",
)


def split(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The verb, and all other arguments in their order."""
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if not argument.startswith("-"):
            return argument, [*arguments[:position], *arguments[position + 1 :]]
        position += 2 if argument in VALUE_OPTIONS else 1
    return None, list(arguments)


def load(place: str) -> Any:
    """What is called that in that module."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)

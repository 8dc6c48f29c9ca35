"""The ``ottla`` command: a table of verbs, each loaded only when it is called.

Nothing here knows what a verb does. What makes its command line is loaded first, so that help and
mistakes cost nothing; its function gets the parsed arguments and returns the exit status. Options
may stand before the verb as well as after it.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla import __version__

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

USAGE_ERROR = 2
# 128 and the number of SIGINT, as shells have it.
INTERRUPTED = 130


class Verb(NamedTuple):
    """What makes the command line of a verb and what runs it, as ``module:function``, and what it
    is for in half a line."""

    parser: str
    place: str
    purpose: str


def _client(name: str, purpose: str, parser: str = "") -> Verb:
    """A verb whose modules have its name."""
    return Verb(
        f"ottla.client.cli.parsers.{parser or f'{name}:parser'}",
        f"ottla.client.cli.{name}:main",
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
    "groups": _client("groups", "look at consumer groups, move their positions"),
    "offsets": _client("offsets", "show offsets of partitions, also by time"),
    "configs": _client("configs", "look at settings of topics, brokers and groups, change them"),
    "transactions": _client("transactions", "look at transactions, end those that hang"),
    "cluster": _client("cluster", "look at brokers, their health, disks and versions"),
    "features": _client("features", "look at what a cluster can switch on, and switch it"),
    "reassign": _client(
        "reassign", "move replicas from broker to broker", "placements:reassign_parser"
    ),
    "elect": _client(
        "elect", "give partitions the leader they should have", "placements:elect_parser"
    ),
    "perf": _client("perf", "measure how fast a cluster is"),
    "doctor": _broker("doctor", "say what is wrong here, and what to do"),
    "log": _broker("log", "look into the files of a stopped broker"),
    "completion": _client("completion", "let a shell complete these verbs and their options"),
}
# Options that every client verb knows, so that they may come first, and take a value.
VALUE_OPTIONS = ("-b", "--bootstrap", "--format")


def usage() -> str:
    """What ``ottla --help`` shows."""
    lines = [f"  {name:<14}{verb.purpose}" for name, verb in VERBS.items()]
    return "\n".join(
        [
            "usage: ottla VERB ...",
            "",
            "Brokers that speak Kafka's protocol, and commands for any such broker.",
            "",
            *lines,
            "",
            "'ottla VERB --help' tells more; 'ottla --version' the version.",
            "",
        ]
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    verb, others = split(sys.argv[1:] if arguments is None else arguments)
    if verb is None:
        if "--version" in others:
            sys.stdout.write(f"ottla {__version__}\n")
            return 0
        if "-h" in others or "--help" in others:
            sys.stdout.write(usage())
            return 0
        sys.stderr.write(usage())
        return USAGE_ERROR
    if verb not in VERBS:
        known = ", ".join(VERBS)
        sys.stderr.write(f"ottla: there is no verb {verb!r}; there are {known}\n")
        return USAGE_ERROR
    try:
        make_parser: Callable[[], argparse.ArgumentParser] = load(VERBS[verb].parser)
        parsed = make_parser().parse_args(others)
        run: Callable[[argparse.Namespace], int] = load(VERBS[verb].place)
        return run(parsed)
    except KeyboardInterrupt:
        return INTERRUPTED


def load(place: str) -> Any:
    """What is called that in that module."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


if __name__ == "__main__":
    sys.exit(main())

"""The ``ottla`` command: a table of verbs, each loaded only when it is called.

Nothing here knows what a verb does. A verb's function gets the arguments without the verb and
returns the exit status; options may stand before the verb as well as after it.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, NamedTuple

from ottla import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

USAGE_ERROR = 2


class Verb(NamedTuple):
    """Where a verb lives (``module:function``), and what it is for in half a line."""

    place: str
    purpose: str


VERBS = {
    "start": Verb("ottla.broker.cli.start:main", "run a broker"),
    "topics": Verb("ottla.client.cli.topics:main", "create, list, describe, alter, delete topics"),
    "produce": Verb("ottla.client.cli.produce:main", "send lines of standard input to a topic"),
    "consume": Verb("ottla.client.cli.consume:main", "write the records of a topic as lines"),
    "groups": Verb("ottla.client.cli.groups:main", "look at consumer groups, move their positions"),
    "transactions": Verb(
        "ottla.client.cli.transactions:main", "look at transactions, end those that hang"
    ),
    "cluster": Verb("ottla.client.cli.cluster:main", "look at brokers and their partitions"),
    "reassign": Verb("ottla.client.cli.reassign:main", "move replicas from broker to broker"),
    "elect": Verb("ottla.client.cli.elect:main", "give partitions the leader they should have"),
    "log": Verb("ottla.broker.cli.log:main", "look into the files of a stopped broker"),
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
    module, _, name = VERBS[verb].place.partition(":")
    run: Callable[[list[str]], int] = getattr(importlib.import_module(module), name)
    return run(others)


if __name__ == "__main__":
    sys.exit(main())

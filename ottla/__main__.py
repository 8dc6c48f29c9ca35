"""The ``ottla`` command: finds the verb, reads its command line, runs it.

What makes a command line is loaded first, so that help and mistakes cost nothing; the function of
the verb gets the parsed arguments and returns the exit status. Options may stand before the verb
as well as after it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.loading import Loading
from ottla.verbs import VERBS, Verb, load, split

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

USAGE_ERROR = 2
# 128 and the number of SIGINT, as shells have it.
INTERRUPTED = 130
# What the scripts of ``ottla completion`` call; no verb, for nobody types it.
COMPLETE = "__complete"
COMPLETER = "ottla.completion:complete"


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    try:
        try:
            status = dispatch(sys.argv[1:] if arguments is None else arguments)
        finally:
            # Here, and not at exit, which complains; a verb's help ends with SystemExit.
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def dispatch(arguments: Sequence[str]) -> int:
    """Find out what is wanted, and do it. Raises SystemExit for a verb's help and mistakes."""
    if arguments and arguments[0] == COMPLETE:
        complete: Callable[[Sequence[str]], int] = load(COMPLETER)
        return complete(arguments[1:])
    verb, others = split(arguments)
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
    return perform(VERBS[verb], others)


def perform(verb: Verb, arguments: Sequence[str]) -> int:
    """Load the verb, read its command line, run it. Raises SystemExit for help and mistakes."""
    with Loading():
        make_parser: Callable[[], argparse.ArgumentParser] = load(verb.parser)
        parsed = make_parser().parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = load(verb.place)
    return run(parsed)


if __name__ == "__main__":
    sys.exit(main())

"""The ``ottla`` command: finds the verb, parses its command line and runs it.

The parser is loaded first, so that help and mistakes are answered quickly; the verb's function
receives the parsed arguments and returns the exit status. Options may precede or follow the verb.
"""

from __future__ import annotations

import os
import sys
from contextvars import copy_context
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.loading import Loading
from ottla.verbs import VERBS, Verb, known_as, split

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE_ERROR = 2
# 128 plus the number of SIGINT, as in shells.
INTERRUPTED = 130
# The internal command of the scripts of ``ottla completion``; not a verb, since users do not type
# it.
COMPLETE = "__complete"


def usage() -> str:
    """The text of ``ottla --help``."""
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
            # Flush here: a failure at exit prints a complaint. A verb's help ends with SystemExit.
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it. Nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def dispatch(arguments: Sequence[str]) -> int:
    """Find the verb and run it. Raises SystemExit for a verb's help and mistakes."""
    if arguments and arguments[0] == COMPLETE:
        from ottla.completion import complete

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
    known = known_as(verb)
    if known is None:
        from ottla.client.settings.spelling import suggestion

        hint = suggestion(verb, VERBS) or f"; there are {', '.join(VERBS)}"
        sys.stderr.write(f"ottla: there is no verb {verb!r}{hint}\n")
        return USAGE_ERROR
    # The settings that are given to one command must not reach the next one of this process.
    return copy_context().run(perform, VERBS[known], others)


def perform(verb: Verb, arguments: Sequence[str]) -> int:
    """Load the verb, parse its command line and run it. Raises SystemExit for help and mistakes."""
    with Loading():
        parsed = verb.load_parser()().parse_args(arguments)
        if hasattr(parsed, "bootstrap"):
            from ottla.client.cli.connection import resolve
            from ottla.client.settings.profiles import ProfileError

            try:
                resolve(parsed)
            except ProfileError as error:
                sys.stderr.write(f"ottla: {error}\n")
                return USAGE_ERROR
        run = verb.load_main()
    return run(parsed)


if __name__ == "__main__":
    sys.exit(main())

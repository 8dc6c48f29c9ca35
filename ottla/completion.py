"""The completions that the scripts of ``ottla completion`` request.

An answer is a line that says whether the shell should offer its own files, then a line for each
word and, after a tab, its meaning.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.client.cli.completing import CandidateSource, Completion, Word
from ottla.client.cli.completing import complete as complete_within
from ottla.verb_loaders import completion_names
from ottla.verbs import VERBS, split

if TYPE_CHECKING:
    from collections.abc import Sequence

FILES = ":files"
WORDS = ":words"
GLOBAL_OPTIONS = (
    Word("--bootstrap", "a broker of the cluster"),
    Word("--format", "how to write results"),
    Word("--help", "tell what there is"),
    Word("--json", "the same as --format json"),
    Word("--version", "tell the version"),
)


def complete(words: Sequence[str]) -> int:
    """Write the candidates for the last word. Reports no errors, which the shell would not show."""
    found = completion_of(words or [""])
    if found.source is CandidateSource.FILES and not found.words:
        sys.stdout.write(f"{FILES}\n")
        return 0
    candidates = found.words
    if found.source in (CandidateSource.TOPICS, CandidateSource.GROUPS):
        candidates = [Word(name) for name in completion_names()(found.source, words)]
    lines = [f"{word.text}\t{word.meaning}\n" for word in candidates]
    sys.stdout.write("".join([f"{WORDS}\n", *lines]))
    return 0


def completion_of(words: Sequence[str]) -> Completion:
    """The candidates for the last word of a command line, given without its first word."""
    *before, current = words
    verb, others = split(before)
    if verb in VERBS:
        return complete_within(VERBS[verb].load_parser()(), [*others, current])
    if before and before[-1] == "--format":
        choices = [Word("text"), Word("json")]
    elif current.startswith("-"):
        choices = list(GLOBAL_OPTIONS)
    else:
        choices = [Word(name, one.purpose) for name, one in VERBS.items()]
    return Completion([word for word in choices if word.text.startswith(current)])

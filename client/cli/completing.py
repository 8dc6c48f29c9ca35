"""Completes an unfinished command line, from its parser. Pure."""

from __future__ import annotations

import argparse
from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class CandidateSource(Enum):
    """The source of candidates that the parser does not know."""

    NOWHERE = ""
    FILES = "files"
    TOPICS = "topics"
    GROUPS = "groups"


# By metavar.
SOURCES = {
    "TOPIC": CandidateSource.TOPICS,
    "TOPIC[:P,P]": CandidateSource.TOPICS,
    "TOPIC:PARTITION": CandidateSource.TOPICS,
    "GROUP": CandidateSource.GROUPS,
    "FILE": CandidateSource.FILES,
    "DIR": CandidateSource.FILES,
}


class Word(NamedTuple):
    """A candidate and its meaning in half a line."""

    text: str
    meaning: str = ""


class Completion(NamedTuple):
    """The candidates that match the unfinished word, and the source of others."""

    words: list[Word]
    source: CandidateSource = CandidateSource.NOWHERE


def complete(parser: argparse.ArgumentParser, words: Sequence[str]) -> Completion:
    """The candidates for the last word, which is unfinished or empty."""
    assert words
    *before, current = words
    place = CommandPosition(parser)
    for word in before:
        place.read(word)
    if place.awaited is not None:
        return _values(place.awaited, current)
    if current.startswith("--") and "=" in current:
        name, _, value = current.partition("=")
        option = place.option(name)
        if option is None:
            return Completion([])
        found = _values(option, value)
        return Completion([Word(f"{name}={word.text}", word.meaning) for word in found.words])
    if current.startswith("-"):
        return Completion([word for word in place.options() if word.text.startswith(current)])
    positional = place.positional()
    return Completion([]) if positional is None else _values(positional, current)


def _values(action: argparse.Action, current: str) -> Completion:
    """The candidates for an option's value or a positional argument."""
    if isinstance(action, argparse._SubParsersAction):
        meanings = {one.dest: one.help or "" for one in action._choices_actions}
        words = [Word(name, meanings.get(name, "")) for name in action.choices or ()]
    else:
        words = [Word(str(choice)) for choice in action.choices or ()]
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    source = SOURCES.get(metavar, CandidateSource.NOWHERE)
    return Completion([word for word in words if word.text.startswith(current)], source)


class CommandPosition:
    """The parse position in a command line: the current parser, the next positional argument, and
    the option that waits for its value."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.awaited: argparse.Action | None = None
        self._enter(parser)
        self._given: set[str] = set()

    def _enter(self, parser: argparse.ArgumentParser) -> None:
        self._positionals = [one for one in parser._actions if not one.option_strings]
        self._options = {name: one for one in parser._actions for name in one.option_strings}
        self._read_count = 0

    def read(self, word: str) -> None:
        """Read a complete word."""
        if self.awaited is not None:
            self.awaited = None
            return
        if word.startswith("-") and word != "-":
            option = self._options.get(word)
            if option is not None:
                self._given.update(option.option_strings)
                self.awaited = option if option.nargs != 0 else None
            return
        positional = self.positional()
        self._read_count += 1
        if isinstance(positional, argparse._SubParsersAction):
            inner = (positional.choices or {}).get(word)
            if isinstance(inner, argparse.ArgumentParser):
                self._enter(inner)

    def option(self, name: str) -> argparse.Action | None:
        """The option of that name if it takes a value, else None."""
        found = self._options.get(name)
        return None if found is None or found.nargs == 0 else found

    def options(self) -> Iterator[Word]:
        """The options that may still be given, long names first because they are clearer."""
        for name in sorted(self._options, key=lambda name: (not name.startswith("--"), name)):
            option = self._options[name]
            is_repeatable = isinstance(option, argparse._AppendAction)
            if name in self._given and not is_repeatable:
                continue
            if option.help is not argparse.SUPPRESS:
                yield Word(name, (option.help or "").replace("%%", "%"))

    def positional(self) -> argparse.Action | None:
        """The next positional argument; the last takes all remaining words if it takes many."""
        if self._read_count < len(self._positionals):
            return self._positionals[self._read_count]
        last = self._positionals[-1] if self._positionals else None
        return last if last is not None and last.nargs in ("*", "+") else None

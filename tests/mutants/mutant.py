"""One bug: which lines of which file it changes, what it breaks, and which tests must notice."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Mutant(NamedTuple):
    """A change of one piece of one file.

    ``old`` occurs exactly once in the file. ``breaks`` is the sentence that is no longer true; for
    an invariant of docs/internals/invariants.md it is that invariant's bold
    sentence. ``tests`` are arguments for pytest: files, folders or single tests, the one that ought
    to notice first."""

    name: str
    path: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]

    def planted_in(self, text: str) -> str:
        """The file's text with the bug. Raises ValueError if the place is not there, or is not the
        only one."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: {self.path} has the old text {count} times, not once")
        return text.replace(self.old, self.new)

"""Plants bugs in a copy of the tree, one at a time, and runs the tests that must notice."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.lots.running import run_pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lots.running import Outcome
    from tests.mutants.mutant import Mutant

LIMIT_S = 180.0
# A test that hangs has noticed the bug as well, if it is ended in time.
HANG_S = 100
# Those that ``make test`` runs: a bug must be noticed there.
MARKS = "not interop and not soak"
# Nothing of these belongs to the tree, or it is large and not needed.
LEFT_OUT = (".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "build", "dist")


class Fate(Enum):
    """The result for one planted bug."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    OVERDUE = "NO ANSWER IN TIME"
    # Nothing is known about the bug: a test fails without it as well, or none could be run.
    UNCLEAR = "UNCLEAR"


class Verdict(NamedTuple):
    """Of one bug. ``by`` is the test that failed, or what else there is to say."""

    mutant: Mutant
    fate: Fate
    by: str
    seconds: float

    def __str__(self) -> str:
        text = f"{self.mutant.name}: {self.fate.value} ({self.seconds:.0f} s)"
        return f"{text} {self.by}" if self.by else text


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of the tree to plant bugs in, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="ottla-mutants-") as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        yield copy


@contextmanager
def planted(mutant: Mutant, root: Path) -> Iterator[None]:
    """Plant the bug in the tree for the duration of the context."""
    path = root / mutant.path
    text = path.read_text("utf-8")
    path.write_text(mutant.planted_in(text), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")


def judge(mutant: Mutant, root: Path, limit_s: float = LIMIT_S) -> Verdict:
    """Whether a test notices the bug, and whether it passes without the bug.

    ``root`` is the copy; no other process may use it meanwhile.
    """
    begun = time.monotonic()

    def verdict(fate: Fate, by: str = "") -> Verdict:
        return Verdict(mutant, fate, by, time.monotonic() - begun)

    with planted(mutant, root):
        outcome = _run(mutant.tests, root, limit_s)
    failures = outcome.record.failures
    if not failures:
        if outcome.is_overdue:
            return verdict(Fate.OVERDUE, ", ".join(outcome.record.under_way))
        if outcome.was_cut_short or not outcome.record.passed:
            return verdict(Fate.UNCLEAR, f"pytest ended with status {outcome.status}")
        return verdict(Fate.SURVIVED)
    first = failures[0].node_id
    if "::" not in first:
        return verdict(Fate.UNCLEAR, f"{first} cannot be loaded: {failures[0].brief}")
    if first not in _run((first,), root, limit_s).record.passed:
        return verdict(Fate.UNCLEAR, f"{first} fails without the bug as well")
    return verdict(Fate.KILLED, first)


def _run(tests: Sequence[str], root: Path, limit_s: float) -> Outcome:
    """The first failure is enough. One process runs everything: a bug may be a crash of it."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--timeout={HANG_S}",
            "-m",
            MARKS,
            *tests,
        ]
        deadline_s = time.monotonic() + limit_s
        return run_pytest(
            [*arguments, *tests], Path(folder) / "record", deadline_s, root, is_quiet=True
        )

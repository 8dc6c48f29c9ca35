"""The bugs that ``make mutants`` plants fit the tree as it is, and each invariant has one."""

from __future__ import annotations

import re

import pytest

from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.tables import MUTANTS, NOT_PLANTED

_BOLD = re.compile(r"^- \*\*(.+?)\*\*", re.MULTILINE | re.DOTALL)


def invariants() -> list[str]:
    """The bold sentences of docs/internals/invariants.md."""
    text = (ROOT / "docs" / "internals" / "invariants.md").read_text("utf-8")
    found = _BOLD.findall(text)
    return [" ".join(sentence.split()) for sentence in found]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.name for one in MUTANTS])
def test_every_bug_can_be_planted(mutant: Mutant) -> None:
    """A change of the mutated lines must change the entry of that name in ``tests/mutants/rooms``
    too, or delete it if there is nothing left to break."""
    text = mutant.planted_in((ROOT / mutant.path).read_text("utf-8"))

    compile(text, mutant.path, "exec")
    assert mutant.old != mutant.new
    assert [one for one in mutant.tests if not (ROOT / one.partition("::")[0]).exists()] == []


def test_names_of_bugs_are_told_apart() -> None:
    """A survivor is named, and run again by its name."""
    names = [one.name for one in MUTANTS]

    assert sorted(set(names)) == sorted(names)


def test_every_invariant_has_a_planted_bug() -> None:
    """An invariant that was never broken on purpose may hold by luck. Add an entry to a file of
    ``tests/mutants/rooms`` whose ``breaks`` is the bold sentence, or to ``NOT_PLANTED`` why not."""
    planted = {one.breaks for one in MUTANTS}
    listed = invariants()

    assert len(listed) > 70
    assert [one for one in listed if one not in planted and one not in NOT_PLANTED] == []
    assert [one for one in NOT_PLANTED if one not in listed or one in planted] == []

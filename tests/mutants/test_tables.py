"""The tables of planted bugs fit the tree as it is."""

from __future__ import annotations

import pytest

from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.tables import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.name for one in MUTANTS])
def test_every_bug_can_be_planted(mutant: Mutant) -> None:
    """Code that moved on takes its bugs along: whoever changes the lines changes the table."""
    text = mutant.planted_in((ROOT / mutant.path).read_text("utf-8"))

    compile(text, mutant.path, "exec")
    assert mutant.old != mutant.new
    assert [one for one in mutant.tests if not (ROOT / one.partition("::")[0]).exists()] == []


def test_names_are_told_apart() -> None:
    """A survivor is named, and run again by its name."""
    names = [one.name for one in MUTANTS]

    assert sorted(set(names)) == sorted(names)


def test_a_place_that_is_not_the_only_one_is_refused() -> None:
    """Two bugs at once say nothing about one of them."""
    mutant = Mutant("toy", "toy.py", "a", "b", "", ())

    assert mutant.planted_in("xay") == "xby"
    for text in ("aa", ""):
        with pytest.raises(ValueError, match="times, not once"):
            mutant.planted_in(text)

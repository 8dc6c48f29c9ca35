"""The verdict on a planted bug, on a tree of two files."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.running import Fate, copied, judge, planted

if TYPE_CHECKING:
    from pathlib import Path

CODE = "def add(a, b):\n    return a + b\n"
TESTS = """
from adding import add

def test_adds():
    assert add(2, 2) == 4

def test_fails_always():
    assert add(1, 1) == 3
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the plugin that notes what fails."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "lots").symlink_to(ROOT / "tests" / "lots")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (tmp_path / "adding.py").write_text(CODE)
    (tmp_path / "test_adding.py").write_text(TESTS)
    return tmp_path


def bug(new: str, test: str = "test_adds") -> Mutant:
    """``add`` does something else."""
    return Mutant("bug", "adding.py", "a + b", new, "two and two", (f"test_adding.py::{test}",))


@pytest.mark.parametrize(
    ("mutant", "fate"),
    [
        (bug("a - b"), Fate.KILLED),
        (bug("a * b"), Fate.SURVIVED),
        (bug("a - b", "test_fails_always"), Fate.UNCLEAR),
        (bug("a + * b"), Fate.UNCLEAR),
        (bug("a - b", "test_that_is_gone"), Fate.UNCLEAR),
    ],
    ids=["noticed", "not noticed", "fails without the bug", "cannot be loaded", "no such test"],
)
def test_a_bug_is_noticed_by_a_test_that_passes_without_it(
    tree: Path, mutant: Mutant, fate: Fate
) -> None:
    """Anything else that goes wrong must not count as noticed."""
    verdict = judge(mutant, tree)

    assert verdict.fate is fate, verdict
    assert (tree / "adding.py").read_text() == CODE


def test_the_tree_is_as_it_was_whatever_happens_meanwhile(tree: Path) -> None:
    """The next bug is planted in the same copy."""
    meanwhile = ""
    with suppress(KeyboardInterrupt), planted(bug("a - b"), tree):
        meanwhile = (tree / "adding.py").read_text()
        raise KeyboardInterrupt

    assert "a - b" in meanwhile
    assert (tree / "adding.py").read_text() == CODE


def test_bugs_are_planted_in_a_copy(tree: Path) -> None:
    """The developer who runs this goes on working in the tree."""
    (tree / ".venv").mkdir()
    with copied(tree) as copy:
        assert (copy / "adding.py").read_text() == CODE
        assert not (copy / ".venv").exists()
        assert copy.resolve() != tree.resolve()

    assert not copy.exists()


def test_a_place_that_is_not_the_only_one_is_refused() -> None:
    """Two bugs at once say nothing about one of them."""
    mutant = Mutant("toy", "toy.py", "a", "b", "", ())

    assert mutant.planted_in("xay") == "xby"
    for text in ("aa", ""):
        with pytest.raises(ValueError, match="times, not once"):
            mutant.planted_in(text)

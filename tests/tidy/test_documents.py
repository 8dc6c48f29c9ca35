"""What the documents name exists."""

from __future__ import annotations

import re

from tests.tidy.tree import ROOT, functions, modules_of_tests

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_every_guard_of_an_invariant_exists() -> None:
    """An invariant whose test was renamed away is an invariant that nobody guards."""
    known = {
        f"{module.path.relative_to(ROOT)}::{function.name}"
        for module in modules_of_tests()
        for function in functions(module)
    }
    named = re.findall(r"`(tests/[\w/]+\.py::\w+)`", ARCHITECTURE)

    assert len(named) > 10
    assert [name for name in named if name not in known] == []


def test_every_folder_of_the_map_exists() -> None:
    """A map with rooms that were torn down leads nowhere."""
    named = re.findall(r"^\| `([\w/]+)/` \|", ARCHITECTURE, re.MULTILINE)

    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_dir()] == []


def test_the_first_page_stays_short() -> None:
    """A newcomer reads one page, not a book."""
    assert (ROOT / "README.md").read_text("utf-8").count("\n") < 150

"""What the documents name exists."""

from __future__ import annotations

import re

from tests.tidy.tree import ROOT, compiled_texts, functions, modules_of_tests, product_modules

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
INVARIANTS = (ROOT / "docs" / "internals" / "invariants.md").read_text("utf-8")
HAZARDS = (ROOT / "docs" / "internals" / "hazards.md").read_text("utf-8")
# The letters of the register: docs/internals/hazards.md.
HAZARD_CODE = re.compile(r"\b[RCTGSNPU]-\d\d\b")
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)(?:#[^)\s]*)?\)")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)


def test_every_guard_of_an_invariant_exists() -> None:
    """An invariant whose test was renamed has no guard that a reader can find."""
    known = {
        f"{module.path.relative_to(ROOT)}::{function.name}"
        for module in modules_of_tests()
        for function in functions(module)
    }
    named = re.findall(r"`(tests/[\w/]+\.py::\w+)`", INVARIANTS + HAZARDS)

    assert len(named) > 10
    assert [name for name in named if name not in known] == []


def test_every_hazard_code_in_the_tree_is_in_the_register() -> None:
    """A code without an explanation is a riddle to everyone who clones the tree."""
    texts = [module.text for module in product_modules() + modules_of_tests()]
    used = {
        code for text in [*texts, *compiled_texts().values()] for code in HAZARD_CODE.findall(text)
    }
    listed = re.findall(r"^\| ([A-Z]-\d\d) \|", HAZARDS, re.MULTILINE)

    assert len(used) > 100
    assert sorted(used - set(listed)) == []
    assert len(listed) == len(set(listed))


def test_every_link_between_pages_leads_to_a_file() -> None:
    """A dead link sends a reader away."""
    links = [(page, target) for page in PAGES for target in LINK.findall(page.read_text("utf-8"))]
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page, target in links
        if not (page.parent / target).exists()
    ]

    assert len(links) > 10
    assert dead == []


def test_the_index_of_the_documentation_links_every_page() -> None:
    """A page without a link is found only by those who know that it exists."""
    index = ROOT / "docs" / "README.md"
    linked = {
        (index.parent / target).resolve() for target in LINK.findall(index.read_text("utf-8"))
    }
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page != index}

    assert sorted(str(page.relative_to(ROOT)) for page in pages - linked) == []


def test_every_folder_of_the_map_exists() -> None:
    """A map with rooms that were torn down leads nowhere."""
    named = re.findall(r"^\| `([\w/]+)/` \|", ARCHITECTURE, re.MULTILINE)

    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_dir()] == []


def test_the_first_page_stays_short() -> None:
    """A newcomer reads one page, not a book."""
    assert (ROOT / "README.md").read_text("utf-8").count("\n") < 150

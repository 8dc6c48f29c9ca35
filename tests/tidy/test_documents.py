"""The tests, files and links that the documents mention exist."""

from __future__ import annotations

import ast
import re

from tests.tidy.tree import ROOT, compiled_texts, functions, modules_of_tests, product_modules

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
INTERNALS = ROOT / "docs" / "internals"
INVARIANTS = (INTERNALS / "invariants.md").read_text("utf-8")
HAZARDS = (INTERNALS / "hazards.md").read_text("utf-8")
# The letters of the register: docs/internals/hazards.md.
HAZARD_CODE = re.compile(r"\b[RCTGSNPU]-\d\d\b")
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)(?:#[^)\s]*)?\)")
ANCHOR_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FILE = re.compile(r"`([\w/]+\.pyx?)`")
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


def test_every_assert_of_an_invariant_stands_where_the_page_says() -> None:
    """An invariant that is said to be asserted, and is not, is believed without reason."""
    asserting = {
        f"{module.path.relative_to(ROOT)}::{function.name}"
        for module in product_modules()
        for function in functions(module)
        if any(isinstance(node, ast.Assert) for node in ast.walk(function))
    }
    named = re.findall(r"`((?:broker|coordinator)/[\w/]+\.py::\w+)`", INVARIANTS)

    assert len(named) > 50
    assert [name for name in named if name not in asserting] == []


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


def _anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {one.strip().replace(" ", "-") for one in words}


def test_every_link_to_a_heading_leads_to_one() -> None:
    """A link into a page that misses its heading leaves the reader at the top."""
    links = [
        (page, target, anchor)
        for page in PAGES
        for target, anchor in ANCHOR_LINK.findall(page.read_text("utf-8"))
    ]
    dead = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page, target, anchor in links
        if anchor not in _anchors((page.parent / target if target else page).read_text("utf-8"))
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


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """MkDocs would build a page that no menu shows."""
    site = (ROOT / "docs" / "site" / "mkdocs.yml").read_text("utf-8")
    shown = set(re.findall(r": ([\w/-]+\.md)$", site, re.MULTILINE))
    pages = {str(page.relative_to(ROOT)) for page in PAGES}

    assert pages - shown == set()
    assert {page for page in shown - pages if not page.startswith("api/")} == set()


def test_every_folder_of_the_map_exists() -> None:
    """A map with a folder that is gone leads nowhere."""
    named = re.findall(r"^\| `([\w/]+)/` \|", ARCHITECTURE, re.MULTILINE)

    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_dir()] == []


def test_every_file_that_the_walks_name_exists() -> None:
    """A walk through the code that names a renamed file ends there."""
    pages = {
        page: page.read_text("utf-8") for page in [*ROOT.glob("*.md"), *INTERNALS.glob("*.md")]
    }
    modules = product_modules() + modules_of_tests()
    known = [f"/{module.path.relative_to(ROOT)}" for module in modules]
    named = {(page.name, name) for page, text in pages.items() for name in FILE.findall(text)}

    assert len(named) > 50
    missing = [
        f"{page}: {name}"
        for page, name in sorted(named)
        if not (ROOT / name).exists() and not any(path.endswith(f"/{name}") for path in known)
    ]
    assert missing == []


def test_the_architecture_stays_short() -> None:
    """A newcomer reads it in a quarter of an hour."""
    assert len(ARCHITECTURE.split()) < 2_100


def test_the_first_page_stays_short() -> None:
    """A newcomer reads one page, not a book."""
    assert (ROOT / "README.md").read_text("utf-8").count("\n") < 150

"""The pages of the claims, their pictures, and the command that runs them all."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from examples.why import showing
from examples.why.__main__ import PROGRAMS, main
from examples.why.picture import Bar, Line, bar_chart, line_chart
from tests.requirements import known_ids
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGES = ROOT / "docs" / "why"
SHARED = {"__main__", "measuring", "picture", "showing"}
ELECTION = (PAGES / "election.md").read_text("utf-8")
# A row of the table of tests: its rows of the specification, the file, the test.
SHOWN_BY = re.compile(r"\| ((?:[A-Z]{3}-\d\d(?:, )?)+) \| `(tests/[\w/]+\.py)::(\w+)` \|")


def test_every_program_has_a_page_and_every_page_a_program() -> None:
    """A claim without a program is prose, and a program without a page has no claim."""
    programs = {path.stem for path in (ROOT / "examples" / "why").glob("*.py")} - SHARED
    pages = {path.stem for path in PAGES.glob("*.md")} - {"README"}

    assert programs == pages == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_page_names_its_claim_source_command_figure_and_picture(name: str) -> None:
    """The reader should be able to check each sentence."""
    text = (PAGES / f"{name}.md").read_text("utf-8")
    (measured,) = showing.MEASURED.findall(text)

    for part in ("**The claim.**", "**Source.**", "**What it means.**"):
        assert part in text
    assert f".venv/bin/python -m examples.why.{name}\n" in text
    assert f"(../../examples/why/{name}.py)" in text
    assert f"](pictures/{name}.svg)" in text
    assert "The claim holds in this run." in measured
    assert re.search(r"\d+ cores, \w+, Linux, Python 3\.\d+\.\d+; (busy|quiet)", measured)
    assert "--quick" not in measured


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_picture_is_readable_on_light_and_dark_pages(name: str) -> None:
    """It has colours for both schemes and paints its own background."""
    text = (PAGES / "pictures" / f"{name}.svg").read_text("utf-8")
    root = ElementTree.fromstring(text)

    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("aria-label")
    assert "prefers-color-scheme: dark" in text
    assert 'class="paper"' in text


@pytest.mark.requirement("BGD-05")
def test_the_page_on_elections_names_the_differences() -> None:
    """A reader who knows Raft must not expect a vote."""
    head = "| | here, as in PacificA | Raft | ZAB | Viewstamped Replication |"
    _, _, table = ELECTION.partition(head)
    rows = [row.split(" | ") for row in table.splitlines()[2:] if row.startswith("|")][:7]

    assert head in ELECTION
    assert [row[0] for row in rows][:2] == ["| committed when", "| who elects"]
    assert all(len(row) == 5 and all(cell.strip(" |") for cell in row) for row in rows)
    assert all(row[1] != other for row in rows for other in row[2:])


@pytest.mark.requirement("BGD-05")
def test_the_page_on_elections_links_the_tests_of_replication_and_controller() -> None:
    """Each test that it names is there, and is marked with the rows that it is said to show."""
    found = SHOWN_BY.findall(ELECTION)
    named = {row_id for ids, _, _ in found for row_id in ids.split(", ")}

    assert ELECTION.count("`tests/") == len(found)
    assert named <= known_ids()
    assert {row_id[:3] for row_id in named} == {"REP", "CTL"}
    for ids, file, test in found:
        assert set(ids.split(", ")) <= rows_of(file, test), test


def rows_of(file: str, test: str) -> set[str]:
    """The rows that the test's marks name."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test:
            marks = " ".join(map(ast.unparse, node.decorator_list))
            return set(re.findall(r"[A-Z]{3}-\d\d", marks))
    raise AssertionError(f"{file} has no {test}")


def test_a_run_writes_the_page_with_its_own_figures(tmp_path: Path) -> None:
    """The reader's figures take the place of the sample, and the committed page stays."""
    before = (PAGES / "failures.md").read_text("utf-8")
    status = main(["--quick", "--into", str(tmp_path), "failures"])
    page = (tmp_path / "failures.md").read_text("utf-8")

    assert status == 0
    assert (PAGES / "failures.md").read_text("utf-8") == before
    assert "--quick" in page
    assert page.partition(showing.BEGIN)[0] == before.partition(showing.BEGIN)[0]
    assert page.partition(showing.END)[2] == before.partition(showing.END)[2]
    assert (tmp_path / "pictures" / "failures.svg").exists()
    assert (tmp_path / "README.md").exists()


def test_a_claim_that_does_not_hold_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page must not say that a claim holds where its figures contradict it."""
    shown = showing.Shown(["figure"], bar_chart("t", [Bar("a", 1, "1")]), holds=False)
    status = showing.run("failures", bool, lambda _: shown, ["--into", str(tmp_path)])

    assert status == 1
    assert "The claim DOES NOT HOLD in this run." in capsys.readouterr().out
    assert "DOES NOT HOLD" in (tmp_path / "failures.md").read_text("utf-8")


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence says which names there are."""
    with pytest.raises(SystemExit):
        main(["capp"])

    assert "there is no capp; there are cap, acks" in capsys.readouterr().err


def test_bars_are_as_long_as_their_values() -> None:
    """Twice the value is twice the length, and nothing becomes wider than the picture."""
    picture = bar_chart("t", [Bar("one", 1, "1"), Bar("two & more", 2, "2"), Bar("none", 0, "0")])
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="18"', picture)]

    assert widths[1] == pytest.approx(2 * widths[0])
    assert widths[2] == 1
    assert "two &amp; more" in picture


def test_a_logarithmic_bar_grows_with_each_power_of_ten() -> None:
    """Rates that differ by a thousand times fit into one picture."""
    picture = bar_chart(
        "t", [Bar("a", 1, ""), Bar("b", 10, ""), Bar("c", 100, "")], logarithmic=True
    )
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="18"', picture)]

    assert widths == pytest.approx([widths[0], 2 * widths[0], 3 * widths[0]], rel=0.01)
    assert "(logarithmic scale)" in picture


def test_a_flat_line_is_drawn_flat() -> None:
    """The vertical axis begins at 0, so that small differences do not look like steep ones."""
    picture = line_chart("t", [Line("flat", [(0, 5), (1, 5), (2, 5)])], "x", "y")
    heights = set(re.findall(r'<circle [^>]*cy="([\d.]+)"', picture))

    assert len(heights) == 1
    assert float(heights.pop()) < 100

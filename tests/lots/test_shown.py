"""Which rows of the specification a run has shown, and what takes a row back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lots.lots import REAL
from tests.lots.recording import Failure, Record
from tests.lots.running import Outcome, run_pytest
from tests.lots.verdict import Ran, shown_by
from tests.requirements import (
    FAILED,
    PASSED,
    SKIPPED,
    Run,
    Shown,
    digest_of_tree,
    judge,
    load_run,
    report,
    save_run,
)
from tests.support.evidence import PROCESS, ZOOKEEPER

if TYPE_CHECKING:
    from pathlib import Path

# Of the store and not of the store.
STORE_ROW, ROW = "ZKT-03", "NET-22"
MARKED = """
import pytest
from tests.support import evidence

@pytest.fixture(scope="module")
def server():
    evidence.note("ZooKeeper")

@pytest.fixture
def process():
    evidence.note("process")

@pytest.mark.requirement("NET-22", "NET-23")
def test_alone(): pass

@pytest.mark.requirement("ZKT-03")
@pytest.mark.parametrize("number", [1, 2])
def test_with_a_server(server, number): assert number == 1

@pytest.mark.requirement("ZKT-04")
def test_with_both(server, process): pass

@pytest.mark.requirement("ZKT-05")
def test_skipped(): pytest.skip("not here")

@pytest.mark.requirement("ZKT-12")
def test_by_itself(): evidence.note("ZooKeeper")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose only file holds the tests a to d."""
    (tmp_path / "t.py").write_text("".join(f"def test_{name}(): ...\n" for name in "abcd"))
    return tmp_path


def ran(tree: Path, *tests: Shown) -> Path:
    """Record a complete run of these tests on the present tree."""
    save_run(tree, Run(digest_of_tree(tree), False, tests))
    return tree


def done(name: str, outcome: str = PASSED, row: str = ROW, *used: str) -> Shown:
    return Shown(f"t.py::test_{name}", (row,), outcome, used)


def verdict(tree: Path, *tests: Shown) -> str:
    """Why the row counts as missing, or nothing."""
    return judge(Run("", False, tests), tree)[ROW].why_not


def test_a_row_is_shown_by_a_test_that_passed(tree: Path) -> None:
    """One that could not be run beside it takes nothing away."""
    assert verdict(tree, done("a")) == ""
    assert verdict(tree, done("a"), done("b", SKIPPED)) == ""
    assert verdict(tree) == "no test"
    assert verdict(tree, done("b", SKIPPED)) == "not run to its end: t.py::test_b"


def test_one_parameter_that_failed_takes_the_row_back(tree: Path) -> None:
    """The row says something about all of them."""
    assert verdict(tree, done("a[1]"), done("a[2]", FAILED)) == "failed: t.py::test_a[2]"


def test_another_test_that_failed_takes_the_row_back(tree: Path) -> None:
    """Its mark says that it shows the row, too."""
    assert verdict(tree, done("a"), done("b", FAILED)) == "failed: t.py::test_b"


def test_a_test_that_is_in_the_tree_no_more_shows_nothing(tree: Path) -> None:
    """Deleted, renamed, or moved to another file."""
    assert verdict(tree, done("a[1]")) == ""
    assert verdict(tree, done("e")) == "no test"
    assert verdict(tree, done("a")._replace(node_id="gone.py::test_a")) == "no test"


def test_a_test_that_a_class_inherits_shows_its_row(tree: Path) -> None:
    """pytest runs the store contract, which is no test file, through its subclasses."""
    (tree / "tests").mkdir()
    (tree / "tests" / "contract.py").write_text("class C:\n    def test_a(self): ...\n")
    (tree / "tests" / "test_c.py").write_text("from tests.contract import C\nclass TestC(C): ...\n")
    inherited = done("a")._replace(node_id="tests/test_c.py::TestC::test_a")

    assert verdict(tree, inherited) == ""
    assert verdict(tree, inherited._replace(node_id="tests/test_c.py::TestC::test_b")) == "no test"


def test_the_record_belongs_to_one_run(tree: Path) -> None:
    """Results of an earlier run are not added to it."""
    ran(tree, done("a", PASSED, "NET-22"))
    ran(tree, done("b", PASSED, "NET-23"))

    run = load_run(tree)

    assert run is not None
    assert [one.rows for one in run.tests] == [("NET-23",)]


def test_a_code_that_changed_since_is_said(tree: Path) -> None:
    """The record is then of another version of the program."""
    (tree / "broker").mkdir()
    ran(tree, done("a"))
    before = report(tree)
    (tree / "broker" / "new.py").touch()

    assert "has changed" not in before
    assert "The code has changed since that run" in report(tree)


def test_a_run_that_was_cut_short_is_said(tree: Path) -> None:
    """Most of what is missing then has simply not been run."""
    save_run(tree, Run(digest_of_tree(tree), True, (done("a"),)))

    assert "cut short" in report(tree)


def test_a_record_that_cannot_be_read_is_none(tree: Path) -> None:
    """The record may have an earlier format."""
    ran(tree, done("a"))
    (tree / ".pytest_cache" / "requirements.json").write_text('{"NET-22": ["t.py::test_a"]}')

    assert load_run(tree) is None
    assert "0 of" in report(tree)


@pytest.mark.parametrize(
    ("used", "on_model"), [((), 1), ((PROCESS,), 1), ((ZOOKEEPER,), 0), ((PROCESS, ZOOKEEPER), 0)]
)
def test_rows_about_zookeeper_that_no_real_one_has_shown_are_told_apart(
    tree: Path, used: tuple[str, ...], on_model: int
) -> None:
    """A model of it shows what we believe of ZooKeeper."""
    tests = [done("a", PASSED, STORE_ROW), done("b", PASSED, STORE_ROW, *used), done("c")]

    lines = report(ran(tree, *tests)).splitlines()

    assert lines[-1].startswith("2 of 420 rows shown")
    assert lines[-1].endswith(f"{on_model} of them on a model of ZooKeeper alone")
    told_apart = lines[lines.index("Of these on a model of ZooKeeper alone:") + 1]
    assert told_apart.startswith(f"  {STORE_ROW}") is bool(on_model)


def outcome(*passed: str, failed: tuple[str, ...] = (), rows: tuple[str, ...] = ()) -> Outcome:
    """Of a run: all tests named are marked with one row."""
    failures = [Failure(name, "", "") for name in failed]
    marked = {name: (ROW,) for name in (*passed, *failed, *rows)}
    return Outcome(1 if failed else 0, Record(failures, [], frozenset(passed), marked), 1.0)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (outcome("b"), PASSED),
        (outcome(failed=("b",)), FAILED),
        (outcome(rows=("b",)), FAILED),
        (outcome(), FAILED),
        (None, FAILED),
    ],
    ids=["passed", "failed", "skipped", "not run", "no second attempt"],
)
def test_the_second_attempt_decides(second: Outcome | None, expected: str) -> None:
    """A busy machine had starved the first one, perhaps."""
    first = [Ran(REAL, outcome("a", failed=("b",)))]

    assert [(one.node_id, one.outcome) for one in shown_by(first, second)] == [
        ("a", PASSED),
        ("b", expected),
    ]


def test_a_test_that_passed_and_failed_afterwards_has_failed() -> None:
    """A failed teardown, say, makes the test fail after it has passed."""
    record = Record([Failure("a", "", "")], [], frozenset({"a"}), {"a": (ROW,)})

    (found,) = shown_by([Ran(REAL, Outcome(1, record, 1.0))], None)

    assert found.outcome == FAILED


def test_a_test_that_never_ended_has_failed() -> None:
    """The test took the process with it."""
    record = Record([], ["a"], frozenset(), {"a": (ROW,)})

    (found,) = shown_by([Ran(REAL, Outcome(9, record, 1.0))], None)

    assert found.outcome == FAILED


@pytest.mark.parametrize("workers", ["0", "2"])
def test_rows_and_real_things_come_out_of_a_run(tmp_path: Path, workers: str) -> None:
    """A fixture of the whole file serves the second test as well as the first."""
    path = tmp_path / "test_it.py"
    path.write_text(MARKED)
    arguments = ["-q", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-p", "tests.conftest"]
    arguments += ["-o", "markers=requirement(*ids): rows", "-n", workers, "--dist", "loadfile"]

    run = run_pytest([*arguments, str(path)], tmp_path / "record", None, is_quiet=True)
    found = {
        one.node_id.rpartition("::")[2]: (*one.rows, one.outcome, *one.used)
        for one in shown_by([Ran(REAL, run)], None)
    }

    assert found == {
        "test_alone": ("NET-22", "NET-23", PASSED),
        "test_with_a_server[1]": ("ZKT-03", PASSED, ZOOKEEPER),
        "test_with_a_server[2]": ("ZKT-03", FAILED, ZOOKEEPER),
        "test_with_both": ("ZKT-04", PASSED, PROCESS, ZOOKEEPER),
        "test_skipped": ("ZKT-05", SKIPPED),
        "test_by_itself": ("ZKT-12", PASSED, ZOOKEEPER),
    }

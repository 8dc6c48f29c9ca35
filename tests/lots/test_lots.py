"""Where the tests belong."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tests.lots.lots import LOTS, REAL, ROOT, Lot, arguments_for


def _holds(paths: tuple[str, ...], file: PurePosixPath) -> bool:
    return any(file.is_relative_to(path) for path in paths)


def _has(lot: Lot, file: PurePosixPath) -> bool:
    return _holds(lot.paths, file) and not _holds(lot.left_out, file)


def test_every_file_of_tests_is_in_exactly_one_lot() -> None:
    """A folder in no lot is never run, and one in two lots costs twice."""
    files = [
        PurePosixPath(path.relative_to(ROOT).as_posix()) for path in ROOT.glob("tests/**/test_*.py")
    ]
    homes = {file: [lot.name for lot in LOTS if _has(lot, file)] for file in files}

    assert len(files) > 400
    assert {file: home for file, home in homes.items() if len(home) != 1} == {}


@pytest.mark.parametrize("lot", LOTS, ids=[lot.name for lot in LOTS])
def test_what_a_lot_names_is_there(lot: Lot) -> None:
    """Pytest passes over a folder to leave out that does not exist."""
    named = [*lot.paths, *lot.left_out]

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_arguments_leave_out_what_other_lots_run() -> None:
    """The lot of everything else would run them a second time."""
    arguments = REAL.arguments()

    assert "--ignore=tests/simulation" in arguments
    assert arguments[-1] == "tests/tidy"


def test_a_second_attempt_runs_one_test_at_a_time() -> None:
    """Those that failed may have been in each other's way."""
    arguments = arguments_for(["tests/a.py::b", "tests/a.py::c[1]"])

    assert arguments[-4:] == ["-n", "1", "tests/a.py::b", "tests/a.py::c[1]"]

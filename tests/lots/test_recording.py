"""The record of a run of pytest, however the run ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.lots.recording import Failure, Record, read
from tests.lots.running import Outcome, run_pytest

if TYPE_CHECKING:
    from pathlib import Path

MIXED = """
import os
import pytest

def test_passes(): pass

@pytest.fixture
def broken():
    yield
    raise OSError("gone already")

def test_fails_twice(broken):
    assert 1 == 2, "one is not two"

def test_crashes(): os._exit(7)

def test_comes_after_the_crash(): raise ValueError("a\\nb")
"""


def _run(folder: Path, text: str, *more: str, deadline_s: float | None = None) -> Outcome:
    path = folder / "test_it.py"
    path.write_text(text)
    arguments = ["-q", "--rootdir", str(folder), "-p", "no:cacheprovider", *more, str(path)]
    return run_pytest(arguments, folder / "record", deadline_s)


def test_failures_are_noted_with_their_reason_and_a_crash_is_one_of_them(tmp_path: Path) -> None:
    """A broken library takes a process with it, and the other tests have to be run."""
    outcome = _run(tmp_path, MIXED, "-n", "1")

    assert outcome.status == 1
    assert not outcome.was_cut_short
    found = {one.node_id.rpartition("::")[2]: one for one in outcome.record.failures}
    assert sorted(found) == ["test_comes_after_the_crash", "test_crashes", "test_fails_twice"]
    assert found["test_fails_twice"].brief == "AssertionError: one is not two"
    assert "gone already" in found["test_fails_twice"].text
    assert "crashed" in found["test_crashes"].brief
    assert found["test_comes_after_the_crash"].brief == "ValueError: a"
    assert outcome.record.under_way == []


def test_a_file_that_cannot_be_collected_is_a_failure(tmp_path: Path) -> None:
    """Its tests have not been run."""
    outcome = _run(tmp_path, "import no_such_module_anywhere")

    (failure,) = outcome.record.failures
    assert failure.node_id.endswith("test_it.py")
    assert "no_such_module_anywhere" in failure.brief


def test_a_run_that_crashes_leaves_what_it_was_at(tmp_path: Path) -> None:
    """Pytest itself says nothing then."""
    outcome = _run(tmp_path, "import os\ndef test_a(): pass\ndef test_b(): os._exit(9)")

    assert outcome.status == 9
    assert outcome.was_cut_short
    assert [one.rpartition("::")[2] for one in outcome.record.under_way] == ["test_b"]


def test_a_run_without_end_is_ended(tmp_path: Path) -> None:
    """CI kills the tests without a report when their time is over, so the lot must end first."""
    text = "import time\ndef test_waits(): time.sleep(1000)"

    outcome = _run(tmp_path, text, deadline_s=time.monotonic() + 5)

    assert outcome.is_overdue
    assert outcome.was_cut_short


@pytest.mark.parametrize("rest", ["", '["failed", "a::c", "br'])
def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path, rest: str) -> None:
    """The run ended while it was written."""
    path = tmp_path / "record"
    path.write_text('["began", "a::b"]\n["failed", "a::b", "brief", "text"]\n' + rest)

    assert read(path) == Record([Failure("a::b", "brief", "text")], [])


def test_without_a_file_nothing_is_known(tmp_path: Path) -> None:
    """Pytest ended before it ran anything."""
    assert read(tmp_path / "none") == Record([], [])

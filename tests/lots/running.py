"""Runs pytest for one lot in a process of its own, for as long as there is time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.lots.lots import ROOT
from tests.lots.recording import Record, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Pytest's own: everything has passed; some have failed.
PASSED, FAILED = 0, 1
# How long pytest may take to say what it has, once it is told that the time is over.
FAREWELL_S = 60.0


class Outcome(NamedTuple):
    """Of one run of pytest. Its status is negative if a signal has ended it."""

    status: int
    record: Record
    seconds: float
    is_overdue: bool = False

    @property
    def was_cut_short(self) -> bool:
        """Whether there are tests of which nothing is known."""
        return self.is_overdue or self.status not in (PASSED, FAILED) or bool(self.record.under_way)


def run_pytest(arguments: Sequence[str], record: Path, deadline_s: float | None) -> Outcome:
    """``deadline_s`` is a point of the monotonic clock."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.lots.recording"]
    command += ["--record", str(record), "--durations=10", *arguments]
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        is_overdue = _wait(process, deadline_s)
    except KeyboardInterrupt:
        # The terminal has told pytest as well.
        process.wait()
        raise
    seconds = time.monotonic() - begun
    return Outcome(process.returncode, read(record), seconds, is_overdue)


def _wait(process: subprocess.Popen[bytes], deadline_s: float | None) -> bool:
    """Whether it had to be ended."""
    left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
    try:
        process.wait(left_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return True
    return False

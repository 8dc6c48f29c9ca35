"""Runs pytest for one lot in a separate process, within the time that is left."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.lots.keeper import FAREWELL_S
from tests.lots.lots import ROOT
from tests.lots.recording import Record, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Pytest's own: everything has passed; some have failed.
PASSED, FAILED = 0, 1
# How long its keeper may take to end leftover processes, beyond pytest's own shutdown.
ENDING_S = 60.0


class Outcome(NamedTuple):
    """Of one run of pytest. Its status is 128 and more if a signal has ended it."""

    status: int
    record: Record
    seconds: float
    is_overdue: bool = False

    @property
    def was_cut_short(self) -> bool:
        """Whether there are tests of which nothing is known."""
        return self.is_overdue or self.status not in (PASSED, FAILED) or bool(self.record.under_way)


def run_pytest(
    arguments: Sequence[str],
    record: Path,
    deadline_s: float | None,
    root: Path = ROOT,
    *,
    is_quiet: bool = False,
) -> Outcome:
    """``deadline_s`` is a point of the monotonic clock, ``root`` the tree whose tests are run. All
    processes that the tests have started have ended when this returns or raises."""
    command = [sys.executable, "-m", "tests.lots.keeper", sys.executable, "-m", "pytest"]
    command += ["-p", "tests.lots.recording", "--record", str(record), "--durations=10"]
    begun = time.monotonic()
    # A terminal's Ctrl-C reaches this process alone, which ends the others in order.
    keeper = subprocess.Popen(
        [*command, *arguments],
        cwd=root,
        start_new_session=True,
        stdout=subprocess.DEVNULL if is_quiet else None,
        stderr=subprocess.DEVNULL if is_quiet else None,
    )
    try:
        is_overdue = _wait(keeper, deadline_s)
    except BaseException:
        _end(keeper)
        raise
    seconds = time.monotonic() - begun
    return Outcome(keeper.returncode, read(record), seconds, is_overdue)


def _wait(keeper: subprocess.Popen[bytes], deadline_s: float | None) -> bool:
    """Whether it had to be ended."""
    left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
    try:
        keeper.wait(left_s)
    except subprocess.TimeoutExpired:
        _end(keeper)
        return True
    return False


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """End the keeper gracefully; at once on a second signal."""
    keeper.terminate()
    while True:
        try:
            keeper.wait(FAREWELL_S + ENDING_S)
        except (KeyboardInterrupt, SystemExit):
            keeper.terminate()
        except subprocess.TimeoutExpired:
            keeper.kill()
        else:
            return

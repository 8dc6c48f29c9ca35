"""Runs a command and ends all processes that it leaves behind: ``python -m tests.lots.keeper
COMMAND ...``.

Tests start servers, some in separate sessions, and ending pytest does not end those. On Linux
orphans become children of the keeper, so that all that the command has started, however far down,
stays below it in the table of processes. Elsewhere one whose parent is gone is not found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# How long the command may take to report its results once its time is over.
FAREWELL_S = 60.0
# How long a process that was left behind has to clean up, and when it is given up.
PATIENCE_S = 3.0
GIVEN_UP_S = 20.0
POLL_S = 0.05
COMMAND_CHARACTERS_MAX = 150

# Of linux/prctl.h.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """A line of the table of processes."""

    pid: int
    parent: int
    command: str


def main(command: Sequence[str], farewell_s: float = FAREWELL_S) -> int:
    """The command's status, 128 and more if a signal has ended it.

    SIGTERM and SIGINT interrupt it; a second one ends it at once."""
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.append(number))
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # The parent of the keeper may be killed without having a chance to end it.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    process = subprocess.Popen(command)
    status = _wait(process.pid, lambda: bool(told))
    if status is None:
        process.send_signal(signal.SIGINT)
        end = time.monotonic() + farewell_s
        status = _wait(process.pid, lambda: len(told) > 1 or time.monotonic() > end)
    for one in _end_what_is_left():
        print(f"ended, for it was left behind: {one.pid} {one.command}", file=sys.stderr)
    if status is None:
        status = -signal.SIGKILL
    process.returncode = status
    return status if status >= 0 else 128 - status


def _prctl(option: int, value: int) -> None:
    # Without it the keeper is merely what it is on other systems.
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _wait(pid: int, is_enough: Callable[[], bool]) -> int | None:
    """The command's status, as subprocess gives it; None if it was enough before."""
    while not is_enough():
        ended = _reap()
        if pid in ended:
            return os.waitstatus_to_exitcode(ended[pid])
        time.sleep(POLL_S)
    return None


def _reap() -> dict[int, int]:
    """Reap ended children, orphans among them: tests check whether a process is gone, and a zombie
    still exists."""
    ended = {}
    with suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            ended[one[0]] = one[1]
    return ended


def _end_what_is_left() -> list[Process]:
    """Terminate, then kill, until no process is left; return those that were found at first."""
    begun = time.monotonic()
    first: list[Process] | None = None
    told: set[int] = set()
    while (waited_s := time.monotonic() - begun) < GIVEN_UP_S:
        left = descendants(os.getpid())
        first = left if first is None else first
        if not left:
            break
        for one in left:
            if waited_s > PATIENCE_S:
                _send(one.pid, signal.SIGKILL)
            elif one.pid not in told:
                told.add(one.pid)
                _send(one.pid, signal.SIGTERM)
        time.sleep(POLL_S)
        _reap()
    return first or []


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def descendants(root: int) -> list[Process]:
    """All that live below it; zombies need no end."""
    table = _from_proc() if Path("/proc/self/stat").exists() else _from_ps()
    below = {root}
    found: dict[int, Process] = {}
    # The table is unsorted: a child may come before its parent.
    while more := [one for one in table if one.parent in below and one.pid not in found]:
        found |= {one.pid: one for one in more}
        below |= {one.pid for one in more}
    return list(found.values())


def _from_proc() -> list[Process]:
    table = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name is in brackets and may contain brackets and blanks.
            name, _, rest = (folder / "stat").read_text("utf-8", "replace").rpartition(")")
            words = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if state != "Z":
            command = words.strip() or name.partition("(")[2]
            table.append(Process(int(folder.name), int(parent), command[:COMMAND_CHARACTERS_MAX]))
    return table


def _from_ps() -> list[Process]:
    """Macs have no /proc."""
    done = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat=,command="], capture_output=True, text=True, check=True
    )
    table = []
    for line in done.stdout.splitlines():
        pid, parent, state, command = line.split(None, 3)
        if not state.startswith("Z") and not command.startswith("ps -A"):
            table.append(Process(int(pid), int(parent), command[:COMMAND_CHARACTERS_MAX]))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

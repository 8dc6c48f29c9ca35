"""No process that tests have started outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.lots.keeper import descendants
from tests.lots.lots import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT_S = 90.0
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="orphans are not found elsewhere")

# Starts a server in a separate session and one whose parent has ended, and notes their ids.
STARTS = """
import os, subprocess, sys, time

def sleeper(): return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"],
    start_new_session=True)

def start(path):
    own = sleeper()
    if not os.fork():
        orphan = sleeper()
        with open(path + ".new", "w") as file:
            file.write(f"{own.pid} {orphan.pid}")
        os.rename(path + ".new", path)
        os._exit(0)
    os.wait()
    own.returncode = 0
"""
IN_A_TEST = f"{STARTS}\ndef test_it():\n    start(PATH)\n    time.sleep(1000)\n"
# The process that runs these tests may ignore some signals, as nohup does, and its children inherit
# that.
LOTS = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from tests.lots.__main__ import interruptible
from tests.lots.running import run_pytest

def work():
    folder = Path(sys.argv[1])
    quiet = ["-q", "-p", "no:cacheprovider", "--rootdir", sys.argv[1], str(folder / "test_it.py")]
    return run_pytest(quiet, folder / "record", None).status

sys.exit(interruptible(work))
"""


def is_gone(pid: int) -> bool:
    """Whether there is no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def noted(path: Path) -> list[int]:
    """The ids, once they are there."""
    end = time.monotonic() + LIMIT_S
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    return [int(word) for word in path.read_text().split()]


def wait_until_gone(pids: list[int]) -> None:
    """Fails with those that are there."""
    end = time.monotonic() + LIMIT_S
    while left := [pid for pid in pids if not is_gone(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.02)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The file in which the servers are noted; a failed test leaves none of them running."""
    path = tmp_path / "pids"
    yield path
    for pid in noted(path) if path.exists() else ():
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)


def kept(command: list[str]) -> subprocess.Popen[str]:
    """A command with its keeper."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lots.keeper", *command],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


@on_linux
def test_what_a_run_leaves_behind_is_ended_and_named(path: Path) -> None:
    """A crashed worker of xdist leaves its servers without a process that would end them."""
    with kept([sys.executable, "-c", f"{STARTS}\nstart({str(path)!r})\nsys.exit(3)"]) as keeper:
        _, said = keeper.communicate(timeout=LIMIT_S)

    assert keeper.returncode == 3
    found = noted(path)
    assert [pid for pid in found if not is_gone(pid)] == []
    assert all(f"left behind: {pid} " in said for pid in found)
    assert said.count("time.sleep(1000)") == 2


def test_a_command_that_was_killed_is_told_from_one_that_failed() -> None:
    """The exit status differs, as a shell's does; without leftovers the report has no entry."""
    with kept([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]) as keeper:
        _, said = keeper.communicate(timeout=LIMIT_S)

    assert (keeper.returncode, said) == (128 + signal.SIGKILL, "")


@on_linux
def test_a_second_signal_waits_for_no_farewell(path: Path) -> None:
    """A second signal must not wait for a command that takes its time to end."""
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    program = f"{STARTS}\n{deaf}\nstart({str(path)!r})\ntime.sleep(1000)"
    with kept([sys.executable, "-c", program]) as keeper:
        found = noted(path)
        keeper.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            keeper.wait(1)
        keeper.send_signal(signal.SIGTERM)
        keeper.communicate(timeout=LIMIT_S)

    assert keeper.returncode == 128 + signal.SIGKILL
    assert [pid for pid in found if not is_gone(pid)] == []


@on_linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_end_of_the_lots_ends_all_that_their_tests_have_started(
    path: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C, a CI that stops a job, a closed terminal; and a kill, which leaves no time to
    react."""
    (tmp_path / "test_it.py").write_text(IN_A_TEST.replace("PATH", repr(str(path))))
    lots = subprocess.Popen(
        [sys.executable, "-c", LOTS, str(tmp_path)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    found = noted(path)
    below = [one.pid for one in descendants(lots.pid)]
    lots.send_signal(number)
    status = lots.wait(LIMIT_S)

    assert status == (-number if number is signal.SIGKILL else 128 + number)
    assert set(found) < set(below)
    if number is not signal.SIGKILL:
        assert [pid for pid in below if not is_gone(pid)] == []
    wait_until_gone(below)


def test_a_process_is_found_below_the_process_that_started_its_parent() -> None:
    """The search also works without /proc."""
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE) as outer:
        end = time.monotonic() + LIMIT_S
        while "input()" not in [one.command.rpartition(" ")[2] for one in descendants(outer.pid)]:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert outer.pid in [one.pid for one in descendants(os.getpid())]
        assert outer.stdin is not None
        outer.stdin.close()

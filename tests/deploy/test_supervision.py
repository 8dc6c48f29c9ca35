"""``ottla start`` under a container's engine or systemd: first process, signals, orphans."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.broker.system.supervision import serve_as_first, tell_systemd
from tests.support.broker_process import BrokerProcess

# A process table of its own, in which the broker is process 1. --kill-child ends it with the test.
FIRST_PROCESS = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")
ORPHAN = "sh", "-c", "(sleep 0.1; exit 7) & echo $!"
LIMIT_S = 60.0


def in_its_table(outside: int) -> int:
    """The broker's process id as the test sees it: the only child of unshare."""
    path = Path(f"/proc/{outside}/task/{outside}/children")
    (child,) = path.read_text("utf-8").split()
    return int(child)


@pytest.fixture
def first(tmp_path: Path) -> BrokerProcess:
    """A broker that is the first process of a table."""
    probe = subprocess.run([*FIRST_PROCESS, "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("needs the right to make a process table: root on Linux")
    return BrokerProcess(tmp_path / "data", launcher=FIRST_PROCESS)


def test_the_first_process_obeys_and_leaves_in_order(first: BrokerProcess, tmp_path: Path) -> None:
    """The kernel ignores a signal of process 1 that has no handler; an engine would kill later."""
    with first:
        os.kill(in_its_table(first.process_id), signal.SIGTERM)
        assert first.wait() == 0, first.stderr()

    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_first_process_takes_orphans(first: BrokerProcess) -> None:
    """Commands that an engine runs inside leave children; dead ones would fill the table."""
    with first:
        broker = in_its_table(first.process_id)
        entered = ["nsenter", "--target", str(broker), "--pid", "--mount", *ORPHAN]
        for _ in range(3):
            subprocess.run(entered, check=True, capture_output=True, timeout=LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        while dead := zombies(broker):
            assert time.monotonic() < deadline, dead
            time.sleep(0.2)
        os.kill(broker, signal.SIGTERM)
        assert first.wait() == 0, first.stderr()


def zombies(parent: int) -> list[str]:
    """Dead children of a process whose status it has not taken."""
    found = []
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text("utf-8").split():
        try:
            state = Path(f"/proc/{child}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        except FileNotFoundError:
            continue
        if state == "Z":
            found.append(child)
    return found


def test_another_process_has_no_such_duties() -> None:
    """Its children are its own, and so are its signals."""
    before = signal.getsignal(signal.SIGTERM)
    serve_as_first(4711)

    assert signal.getsignal(signal.SIGTERM) is before


def test_reaping_ends_where_no_child_is_dead() -> None:
    """One that runs on is left alone."""
    program = "import os, time\nfor s in (0, 0, 60):\n if not os.fork(): time.sleep(s); os._exit(0)"
    check = (
        "time.sleep(0.5)\nfrom ottla.broker.system.supervision import reap\nprint(reap(), reap())"
    )
    killed = "\nimport signal; signal.signal(15, signal.SIG_IGN); os.killpg(0, 15)"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{check}{killed}"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        start_new_session=True,
        check=True,
    )

    assert done.stdout == "2 0\n"


def test_systemd_is_told_when_the_broker_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit of Type=notify is started when clients can come, not when the process exists."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(LIMIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with BrokerProcess(tmp_path / "data") as broker:
            assert systemd.recv(100) == b"READY=1"
            with socket.create_connection(("127.0.0.1", broker.port), LIMIT_S):
                pass


def test_without_systemd_a_broker_starts_all_the_same(tmp_path: Path) -> None:
    """A left-over variable must not keep a broker from starting."""
    assert not tell_systemd("READY=1", {})
    assert not tell_systemd("READY=1", {"NOTIFY_SOCKET": "relative"})
    assert not tell_systemd("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "missing")})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract:
        abstract.bind(f"\0ottla-{os.getpid()}")
        assert tell_systemd("READY=1", {"NOTIFY_SOCKET": f"@ottla-{os.getpid()}"})

"""The contract of ``ottla start``: what it prints, how it ends, what it takes again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import ROOT, STOPPED_TIMEOUT_S, BrokerProcess
from tests.support.terminals import HEARS_HANGUPS, IN_A_TERMINAL

if TYPE_CHECKING:
    from pathlib import Path


def run_start(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a start that is expected to fail by itself."""
    return subprocess.run(
        [sys.executable, "-m", "ottla", "start", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd or ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check that the user gets a message without a traceback, and an exit status."""
    assert done.returncode != 0
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    for word in words:
        assert word in last, last


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_prints_one_line_and_ends_well(tmp_path: Path, number: int) -> None:
    """Scripts wait for the ready line and read nothing else from standard output."""
    broker = BrokerProcess(tmp_path / "data", launcher=HEARS_HANGUPS).start()

    broker.signal(number)
    status = broker.wait()

    assert broker.ready_line == f"ottla: ready at 127.0.0.1:{broker.port}\n"
    assert broker.stdout_after_ready() == b""
    assert status == 0, broker.stderr()


def test_a_closed_terminal_stops_the_broker_in_order(tmp_path: Path) -> None:
    """The kernel sends SIGHUP, and what the broker logs on its way has no place to go."""
    broker = BrokerProcess(tmp_path / "data", launcher=(*HEARS_HANGUPS, *IN_A_TERMINAL))
    terminal, other_end = os.openpty()
    process = subprocess.Popen(
        broker.command(),
        stdin=other_end,
        stdout=subprocess.PIPE,
        stderr=other_end,
        start_new_session=True,
    )
    os.close(other_end)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ottla: ready at ")
        os.close(terminal)
        status = process.wait(STOPPED_TIMEOUT_S)
    finally:
        process.kill()
        process.communicate()

    assert status == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_broker_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    """SIGHUP was ignored when it was started, and stays ignored."""
    broker = BrokerProcess(tmp_path / "data", launcher=["nohup"]).start()

    for _ in range(3):
        broker.signal(signal.SIGHUP)
        time.sleep(0.05)
    made = subprocess.run(
        [sys.executable, "-m", "ottla", "topics", "create", "t", "-b", broker.address],
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert made.returncode == 0, made.stderr
    assert broker.stop() == 0


def test_port_and_directory_can_be_taken_again_after_a_kill(tmp_path: Path) -> None:
    """A lock that outlives its process would need a person at three in the morning."""
    broker = BrokerProcess(tmp_path / "data").start()
    port = broker.port

    for _ in range(3):
        broker.kill()
        broker.start()

    assert broker.port == port
    assert broker.stop() == 0


def test_the_last_of_an_option_given_twice_wins(tmp_path: Path) -> None:
    """Scripts append their own options to a common command."""
    broker = BrokerProcess(
        tmp_path / "unused", extra=["--data-dir", str(tmp_path / "used")]
    ).start()
    broker.stop()

    assert (tmp_path / "used" / "meta.properties").exists()
    assert not (tmp_path / "unused").exists()


def test_a_locked_data_directory_is_refused(tmp_path: Path) -> None:
    """Two brokers on one directory would destroy it."""
    with BrokerProcess(tmp_path / "data"):
        done = run_start("--port", "0", "--data-dir", str(tmp_path / "data"))

    assert_one_sentence(done, str(tmp_path / "data"))


def test_a_busy_port_is_refused(tmp_path: Path) -> None:
    """The sentence names the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_start("--port", str(port), "--data-dir", str(tmp_path / "data"))

    assert_one_sentence(done, str(port))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--zookeeper", "a b:1", "--id", "1"], "--zookeeper: 'a b:1' is not a host with a port"),
        (
            ["-o", "zookeeper.connect=a b:1", "--id", "1"],
            "zookeeper.connect: 'a b:1' is not a host with a port",
        ),
        (["--data-dir", "a,a"], "--data-dir has a directory twice: a,a"),
        (["-o", "log.dirs=a,a"], "log.dirs has a directory twice: a,a"),
        (["--data-dir", ""], "--data-dir names no directory"),
        (["--brokers", "2", "--port", "65535"], "--port 65535 leaves no room for 2 brokers"),
        (
            ["--brokers", "2", "-o", "zookeeper.connect=h"],
            "--brokers runs a cluster of its own: leave zookeeper.connect out",
        ),
        (
            ["--host", "0.0.0.0"],
            "0.0.0.0 means every address of this machine, but clients and other brokers need one "
            "that they can reach: add -o "
            "advertised.listeners=PLAINTEXT://NAME:9092",
        ),
        (
            ["-o", "listeners=PLAINTEXT://0.0.0.0:1"],
            "0.0.0.0 means every address of this machine, but clients and other brokers need one "
            "that they can reach: set advertised.listeners=PLAINTEXT://NAME:1",
        ),
    ],
)
def test_a_setting_is_called_what_its_writer_has_called_it(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    """An error names the option as the user wrote it, not the Kafka setting that it maps to."""
    done = run_start(*arguments, cwd=tmp_path)

    # A broker that is started by root warns of that in a line before.
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"ottla: {sentence}")
    assert list(tmp_path.iterdir()) == []


def test_every_address_can_be_listened_on_when_one_is_told(tmp_path: Path) -> None:
    """The advice above is good advice; IPv6 addresses need no brackets of their own."""
    for host in ("0.0.0.0", "::1"):
        told = ["--host", host, "-o", "advertised.listeners=PLAINTEXT://127.0.0.1:0"]
        with BrokerProcess(tmp_path / "data", extra=told) as broker:
            assert broker.ready_line.startswith("ottla: ready at ")


def test_an_unknown_setting_names_the_nearest_one(tmp_path: Path) -> None:
    """A slip of the pen must not silently leave a default in force."""
    done = run_start("--data-dir", str(tmp_path), "-o", "log.retention.hour=1")

    assert_one_sentence(done, "log.retention.hour", "log.retention.hours")


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    """argparse's own sentence and status."""
    done = run_start("--data-directory", str(tmp_path))

    assert_one_sentence(done, "--data-directory")


def test_a_missing_config_file_is_said(tmp_path: Path) -> None:
    """The sentence names the file."""
    done = run_start("--config", str(tmp_path / "none.properties"))

    assert_one_sentence(done, "none.properties")


def test_a_properties_file_is_obeyed(tmp_path: Path) -> None:
    """Kafka's own form of configuration, with a listener."""
    config = tmp_path / "server.properties"
    data = tmp_path / "from-file"
    config.write_text(f"# a comment\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={data}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "start", "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.terminate()
    status = process.wait(90)
    process.stdout.close()

    assert line.startswith(b"ottla: ready at 127.0.0.1:")
    assert status == 0
    assert (data / "meta.properties").exists()


def test_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    """For notebooks and tests: the data directory is not even made."""
    with BrokerProcess(tmp_path / "data", extra=["--memory"]):
        pass

    assert not (tmp_path / "data").exists()

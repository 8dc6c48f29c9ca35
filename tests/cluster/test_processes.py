"""``ottla start --processes N``: several brokers on one machine by one command."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cluster.support.load import PARTITIONS, TOPIC, Load, check
from tests.cluster.support.machine import MachineProcess, command_of, ottla
from tests.deploy.test_supervision import FIRST_PROCESS, ORPHAN, in_its_table, zombies
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_row
from tests.zookeeper.servers import ZooKeeperServer

COMPLETE = "the rolling restart is complete"
OPTIONS = {"replica.lag.time.max.ms": "10000"}


def page(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_one_command_runs_and_stops_all_of_them(tmp_path: Path) -> None:
    """Addresses, directories, log lines, figures: each process has its own, and one place shows
    them all."""
    metrics = free_row(1)
    extra = ["--metrics", str(metrics), "--log-format", "json"]
    with MachineProcess(tmp_path / "data", 2, extra=extra) as machine:
        children = machine.children()
        described = machine.described()
        ready = page(metrics, "/readyz")
        _, figures = page(metrics, "/metrics")
        mode = os.stat(tmp_path / "data" / "store.socket").st_mode
        machine.signal(signal.SIGTERM)
        assert machine.wait() == 0
        log = machine.stderr()

    ports = [machine.first_port, machine.first_port + 1]
    assert machine.ready_line == (f"ottla: ready at 127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}\n")
    assert [row["address"] for row in described["brokers"]] == machine.bootstrap.split(",")
    assert len({row["rack"] for row in described["brokers"]}) == 1
    assert len(children) == 2
    assert ready == (200, "ok\n")
    for node_id in (1, 2):
        assert f'kafka_server_kafkaserver_brokerstate{{broker="{node_id}"}} 3\n' in figures
        assert f'"broker": {node_id}' in log
    assert stat.S_IMODE(mode) == 0o600
    assert machine.stdout_after_ready() == b""
    assert not any(map(command_of, children))
    left = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert left == ["1", "2", "metadata-store"]


@pytest.mark.soak
def test_restarts_under_load_lose_nothing(tmp_path: Path) -> None:
    """A broker that is killed comes back by itself; a rolling restart waits for each one."""
    with MachineProcess(tmp_path / "data", options=OPTIONS) as machine:
        machine.create_topic(TOPIC, PARTITIONS)
        load = Load(machine.bootstrap)
        try:
            load.wait_for_progress(50)
            machine.kill_child(2)
            load.wait_for_progress(50)
            machine.signal(signal.SIGHUP)
            machine.wait_for_line(COMPLETE)
        finally:
            load.finish()
        check(load, machine.bootstrap)


def test_broker_and_supervisor_are_killed_and_restarted(tmp_path: Path) -> None:
    """Brokers come back by themselves, and end with their supervisor, even one that hangs; the
    next start has the directories for itself, and what was stored."""
    machine = MachineProcess(tmp_path / "data", 2).start()
    machine.create_topic("t", 2, 2)
    ottla("produce", "t", "-b", machine.bootstrap, stdin=b"a\nb\n")
    machine.kill_child(1)
    machine.signal(signal.SIGHUP)
    machine.wait_for_line(COMPLETE)
    children = machine.children()
    os.kill(children[0], signal.SIGSTOP)
    machine.kill()
    killed_at = time.monotonic()
    while any(map(command_of, children)):
        assert time.monotonic() < killed_at + 10, "brokers outlive their supervisor"
        time.sleep(0.01)

    with machine:
        read = ottla("consume", "t", "--from-beginning", "-e", "-b", machine.bootstrap)

    assert sorted(read.split()) == [b"a", b"b"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_no_order_of_kills_and_restarts_loses_anything(tmp_path: Path, seed: int) -> None:
    """Each broker, the controller among them, the supervisor, and rolling restarts, under load."""
    chance = random.Random(seed)
    machine = MachineProcess(tmp_path / "data", options=OPTIONS).start()
    machine.create_topic(TOPIC, PARTITIONS)
    load = Load(machine.bootstrap)
    rolls = 0
    try:
        for _ in range(12):
            load.wait_for_progress(chance.randrange(1, 2_000))
            what = chance.choice(["child", "child", "child", "roll", "supervisor", "stop"])
            if what == "child":
                machine.kill_child(chance.choice([1, 2, 3]))
            elif what == "roll":
                rolls += 1
                machine.signal(signal.SIGHUP)
                machine.wait_for_line(COMPLETE, rolls)
            else:
                if what == "supervisor":
                    machine.kill()
                else:
                    assert machine.stop() == 0
                machine.wait_for("the locks are free", lambda: not machine_is_alive(tmp_path))
                machine.start()
    finally:
        load.finish()
    check(load, machine.bootstrap)
    machine.stop()


def machine_is_alive(folder: Path) -> bool:
    """Whether a process of the machine is left, even one that ends just now."""
    return any(
        str(folder) in command_of(int(entry.name))
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
    )


@pytest.mark.soak
def test_what_does_not_fit_the_directory_is_refused(tmp_path: Path) -> None:
    """Data of one broker, data of more of them, and a directory that is in use."""
    with MachineProcess(tmp_path / "data", 2) as machine:
        for extra, words in (
            (["--processes", "2"], "is in use by another broker process"),
            (["--processes", "1"], "holds the data of several brokers"),
        ):
            second = BrokerProcess(machine.data_dir, port=free_row(2), extra=extra)
            with pytest.raises(RuntimeError, match=words):
                second.start()
        assert len(machine.children()) == 2


@pytest.mark.soak
def test_a_directory_of_one_broker_is_not_taken_over(tmp_path: Path) -> None:
    """The topics would seem to have gone."""
    with BrokerProcess(tmp_path / "data"):
        pass
    with pytest.raises(RuntimeError, match="holds the data of a single broker"):
        MachineProcess(tmp_path / "data", 2).start()


@pytest.mark.soak
def test_a_cluster_of_one_process_moves_into_several(tmp_path: Path) -> None:
    """--brokers and --processes keep their data in the same way."""
    with BrokerProcess(tmp_path / "data", extra=["--brokers", "2"]) as before:
        ottla("topics", "create", "t", "-p", "2", "-r", "2", "-b", before.address)
        ottla("produce", "t", "-b", before.address, stdin=b"a\nb\n")

    with MachineProcess(tmp_path / "data", 2) as machine:
        read = ottla("consume", "t", "--from-beginning", "-e", "-b", machine.bootstrap)

    assert sorted(read.split()) == [b"a", b"b"]


def test_a_broker_that_cannot_start_says_why_and_ends_all(tmp_path: Path) -> None:
    """Half a machine would hide the reason."""
    machine = MachineProcess(tmp_path / "data", 2)
    words = r"ottla: broker 2: cannot listen on .*: Address"
    with (
        socket.create_server(("127.0.0.1", machine.first_port + 1)),
        pytest.raises(RuntimeError, match=words),
    ):
        machine.start()


@pytest.mark.soak
def test_users_and_certificates_are_those_of_the_machine(tmp_path: Path) -> None:
    """--secure: one authority, one password, several ports."""
    with MachineProcess(tmp_path / "data", 2, extra=["--secure"]):
        path = tmp_path / "data" / "secure" / "client.properties"
        ottla("topics", "create", "t", "-p", "2", "-r", "2", "--command-config", str(path))
        ottla("produce", "t", "--command-config", str(path), stdin=b"a\nb\n")
        read = ottla("consume", "t", "--from-beginning", "-e", "--command-config", str(path))
        modes = [os.stat(tmp_path / "data" / str(number)).st_mode for number in (1, 2)]

    assert sorted(read.split()) == [b"a", b"b"]
    assert [stat.S_IMODE(mode) & 0o007 for mode in modes] == [0, 0]


@pytest.mark.soak
def test_machines_meet_in_zookeeper(tmp_path: Path) -> None:
    """Ids count up from the given one, and replicas are spread over the machines."""
    with ZooKeeperServer() as zookeeper:
        where = ["--zookeeper", zookeeper.address, "--id"]
        with (
            MachineProcess(tmp_path / "a", 2, {"broker.rack": "a"}, [*where, "1"]) as machine,
            MachineProcess(tmp_path / "b", 2, {"broker.rack": "b"}, [*where, "3"]),
        ):
            ottla("topics", "create", "t", "-p", "8", "-r", "2", "-b", machine.bootstrap)
            brokers = [row["broker"] for row in machine.described()["brokers"]]
            told = ottla("topics", "describe", "t", "-b", machine.bootstrap, "--format", "json")

    replicas = [part["replicas"] for part in json.loads(told)[0]["partitions"]]
    assert brokers == [1, 2, 3, 4]
    assert all({one > 2 for one in places} == {True, False} for places in replicas)
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["1", "2"]


@pytest.mark.soak
def test_a_supervisor_is_the_first_process_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says when all serve, takes the exit statuses of orphans, leaves those of its brokers to
    itself, and stops in order at SIGTERM."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with MachineProcess(tmp_path / "data", 2, launcher=FIRST_PROCESS) as machine:
            assert systemd.recv(100) == b"READY=1"
            supervisor = in_its_table(machine.process_id)
            entered = ["nsenter", "--target", str(supervisor), "--pid", "--mount", *ORPHAN]
            subprocess.run(entered, check=True, capture_output=True, timeout=60)
            broker = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()[0]
            os.kill(int(broker), signal.SIGKILL)
            machine.wait_for_line("was ended by SIGKILL")
            machine.wait_for("the dead are taken", lambda: not zombies(supervisor))
            machine.wait_for_line("broker 1 serves at", 2)
            os.kill(supervisor, signal.SIGTERM)
            assert machine.wait() == 0, machine.stderr()
    for number in ("1", "2"):
        assert (tmp_path / "data" / number / ".kafka_cleanshutdown").exists()

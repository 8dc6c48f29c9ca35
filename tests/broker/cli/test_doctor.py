"""``ottla doctor``: what it finds, and that every finding says what to do."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from ottla.broker.cli.check_disk import (
    check_disk,
    check_state,
    judge_fsync,
    judge_kind,
    judge_space,
    kind_of,
)
from ottla.broker.cli.check_machine import TIME_ERROR, check_clock, judge_open_files
from ottla.broker.cli.check_network import (
    check_advertised,
    check_cluster,
    check_port,
    check_zookeeper,
    read_answer,
)
from ottla.broker.cli.findings import Level, as_document, as_text, has_problem, ok, problem, warning
from ottla.broker.cli.parsers import doctor_parser
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.client.admin import ClusterDescription
from ottla.client.cluster.metadata import BrokerView
from ottla.protocol.ports import Address
from tests.client.cli.command import ottla
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024**3


def test_findings_are_lines_and_objects() -> None:
    """A person reads the lines, a monitor the objects; both see what to do."""
    found = [ok("disk", "fine"), warning("clock", "odd", "set it"), problem("data", "gone", "look")]

    assert as_text(found) == (
        "ok       disk         fine\n"
        "warning  clock        odd; set it\n"
        "problem  data         gone; look\n"
        "\n1 problem and 1 warning\n"
    )
    assert as_text(found[:1]).endswith("\nall is well\n")
    assert json.loads(as_document(found))[1] == {
        "area": "clock",
        "level": "warning",
        "text": "odd",
        "advice": "set it",
    }
    assert has_problem(found)
    assert not has_problem(found[:2])


@pytest.mark.parametrize(
    ("soft", "hard", "level"),
    [
        (-1, -1, Level.OK),
        (65536, 65536, Level.OK),
        (4096, 65536, Level.WARNING),
        (4096, 4096, Level.WARNING),
        (256, 65536, Level.PROBLEM),
    ],
)
def test_few_open_files_are_a_problem(soft: int, hard: int, level: Level) -> None:
    """A broker that runs out of them takes partitions offline."""
    found = judge_open_files(soft, hard)

    assert found.level is level
    assert ("ulimit" in found.advice) == (level is not Level.OK)
    assert ("administrator" in found.advice) == (hard == 4096)


@pytest.mark.parametrize(
    ("free", "total", "level"),
    [
        (50 * GIB, 100 * GIB, Level.OK),
        (5 * GIB, 100 * GIB, Level.WARNING),
        (GIB // 8, 100 * GIB, Level.PROBLEM),
    ],
)
def test_a_disk_that_is_nearly_full_is_a_problem(free: int, total: int, level: Level) -> None:
    """The operator needs the warning while there is still time to act."""
    assert judge_space(free, total).level is level


def test_doubtful_file_systems_are_named(tmp_path: Path) -> None:
    """The longest mount point counts, and the last of two at one place."""
    mounted = [("/", "overlay"), ("/data", "ext4"), ("/data/old", "nfs4"), ("/data/old", "xfs")]

    assert kind_of("/data/logs", mounted) == "ext4"
    assert kind_of("/database", mounted) == "overlay"
    assert kind_of("/data/old", mounted) == "xfs"
    assert kind_of("/", mounted[1:]) is None
    assert judge_kind(tmp_path, "nfs4").level is Level.WARNING
    assert judge_kind(tmp_path, "ext4").level is judge_kind(tmp_path, None).level is Level.OK


def test_a_slow_fsync_and_a_wrong_clock_are_said() -> None:
    """Both are met months later otherwise, and never suspected."""
    assert judge_fsync([1.0, 2.0, 300.0]).level is Level.OK
    assert judge_fsync([40.0, 50.0, 60.0]).level is Level.WARNING
    assert check_clock(1_000_000_000, 0).level is Level.PROBLEM
    assert check_clock(1_800_000_000, TIME_ERROR).level is Level.WARNING
    assert check_clock(1_800_000_000, None).level is Level.OK


def test_a_directory_is_looked_at_and_left_as_it_was(tmp_path: Path) -> None:
    """The directory may be missing, empty, full of foreign files, or a plain file."""
    missing = tmp_path / "none" / "deeper"
    empty = tmp_path / "empty"
    empty.mkdir()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")

    assert [one.level for one in check_disk(missing)][:1] == [Level.OK]
    assert [one.text.endswith("the first start initializes it") for one in check_state(empty)] == [
        True
    ]
    assert [one.level for one in check_state(foreign)] == [Level.PROBLEM]
    assert [one.level for one in check_disk(foreign / "letter.txt")] == [Level.PROBLEM]
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["empty", "foreign", "letter.txt"]


async def test_whose_data_it_is_and_how_it_was_left(tmp_path: Path) -> None:
    """Before a start, this tells whether it will take long."""
    settings = {"log.dirs": str(tmp_path)}
    async with running_broker(settings, RealDisk(RealOffload())):
        running = list(check_state(tmp_path))
    stopped = list(check_state(tmp_path))
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log.damaged").write_bytes(b"x")
    (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    killed = list(check_state(tmp_path))

    assert running[0].text.endswith("in use by a running broker")
    assert stopped[0].text.endswith("left cleanly")
    assert "broker 1 of cluster " in stopped[0].text
    assert [one.level for one in killed] == [Level.WARNING, Level.WARNING]
    assert "not left cleanly" in killed[0].text
    assert "ottla log dump" in killed[1].advice


async def test_a_cluster_that_is_well_is_called_so() -> None:
    """Its address, what clients are told, its partitions."""
    async with running_broker() as running:
        bootstrap = str(running.broker.address)
        found = [one async for one in check_cluster(bootstrap, is_expected=True)]
        port = check_port(running.broker.address)

    assert [(one.area, one.level) for one in found] == [
        ("cluster", Level.OK),
        ("advertised", Level.OK),
        ("partitions", Level.OK),
    ]
    assert "is in use" in port.text


async def test_an_address_that_clients_cannot_reach_is_a_problem() -> None:
    """The most common mistake of new operators: bootstrap works, and every request after it
    fails."""
    settings = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}
    async with running_broker(settings) as running:
        bootstrap = str(running.broker.address)
        found = [one async for one in check_cluster(bootstrap, is_expected=True)]

    (advertised,) = [one for one in found if one.area == "advertised"]
    assert advertised.level is Level.PROBLEM
    assert "clients are told that broker 1 is at 127.0.0.1:1" in advertised.text
    assert "advertised.listeners" in advertised.advice


async def test_a_loopback_address_is_a_problem_for_those_elsewhere() -> None:
    """It can even be reached from here, by luck: another broker's, or none."""
    broker = BrokerView(1, Address("localhost", 9092), None)
    cluster = ClusterDescription("c", 1, [broker])

    found = await check_advertised(broker, cluster, [Address("10.0.0.5", 9092)])

    assert found.level is Level.PROBLEM
    assert "their own machine" in found.text
    assert "PLAINTEXT://10.0.0.5:9092" in found.advice


async def test_a_missing_broker_is_only_a_problem_where_one_was_named() -> None:
    """Before the first start, an empty port is good news."""
    for is_expected, level in ((True, Level.PROBLEM), (False, Level.WARNING)):
        found = [one async for one in check_cluster("127.0.0.1:1", is_expected=is_expected)]

        assert [one.level for one in found] == [level]
        assert "ottla start" in found[0].advice


async def test_an_ensemble_needs_a_majority() -> None:
    """One reachable server of three is no better than none."""
    found = [one async for one in check_zookeeper("127.0.0.1:1,127.0.0.1:2/chroot")]

    assert [one.level for one in found] == [Level.WARNING, Level.WARNING, Level.PROBLEM]
    assert "no majority" in found[-1].text
    assert found[0].text == "127.0.0.1:1 does not answer: connection refused"
    server = Address("z", 2181)
    assert "follower" in read_answer(server, "Zookeeper version: 3.8.4-x\nMode: follower\n").text
    silent = read_answer(server, "This ZooKeeper instance is not currently serving requests\n")
    assert silent.level is Level.WARNING
    assert read_answer(
        server, "srvr is not executed because it is not in the whitelist.\n"
    ).level is (Level.OK)


async def test_the_command_tells_and_fails_where_something_is_wrong(tmp_path: Path) -> None:
    """As JSON for a monitor; status 1 is for problems only."""
    where = ("--data-dir", str(tmp_path / "data"))
    well = await ottla("doctor", "--local", "--json", *where, "-o", "listeners=PLAINTEXT://:0")
    ill = await ottla("doctor", "--local", *where, "-o", "num.partitions=many")

    areas = {one["area"] for one in json.loads(well.output)}
    assert {"versions", "packages", "open files", "clock", "data", "disk"} <= areas
    problems = [one for one in json.loads(well.output) if one["level"] == "problem"]
    assert well.status == (1 if problems else 0)
    assert ill.status == 1
    assert b"problem  settings     " in ill.output
    assert doctor_parser().parse_args([]).local is False


async def test_all_ports_of_a_machines_brokers_are_looked_at(tmp_path: Path) -> None:
    """``ottla start --processes 3`` would fail at the second of them."""
    with socket.socket() as taken:
        port = taken_in_a_row(taken)
        where = (
            "--data-dir",
            str(tmp_path / "data"),
            "-o",
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
        )
        found = await ottla("doctor", "--local", "--json", *where, "--processes", "3")
        alone = await ottla("doctor", "--local", "--json", *where)
    beyond = await ottla(
        "doctor", "--local", *where[:3], "listeners=PLAINTEXT://:65535", "--processes", "2"
    )

    ports = [one["text"] for one in json.loads(found.output) if one["area"] == "port"]
    assert [text.split(" ")[0] for text in ports] == [f"127.0.0.1:{port + k}" for k in range(3)]
    assert "is in use" in ports[1]
    assert len([one for one in json.loads(alone.output) if one["area"] == "port"]) == 1
    assert b"problem  port         2 brokers: " in beyond.output


def taken_in_a_row(taken: socket.socket) -> int:
    """Take a port; the one before it."""
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    return int(taken.getsockname()[1]) - 1

"""Real brokers on a real ZooKeeper, as Kafka's own tools see them in the tree."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from ottla import NewTopic
from ottla.sync import Admin
from tests.support.broker_process import BrokerProcess
from tests.zookeeper.shared import fresh_place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Long enough for a broker that has to wait for its turn.
SESSION_MS = 4_000
LIMIT_SECONDS = 90.0


class Site:
    """Brokers with one ensemble, and a foreign client that looks at what they write."""

    def __init__(self, folder: Path) -> None:
        self.place = fresh_place()
        self._folder = folder
        self.brokers: list[BrokerProcess] = []
        host, _, chroot = self.place.partition("/")
        whole = KazooClient(host)
        whole.start()
        whole.ensure_path(f"/{chroot}")
        whole.stop()
        whole.close()
        self.tree = KazooClient(self.place)
        self.tree.start()

    def broker(self, node_id: int, folder: str) -> BrokerProcess:
        made = BrokerProcess(
            self._folder / folder,
            options={
                "zookeeper.connect": self.place,
                "zookeeper.session.timeout.ms": str(SESSION_MS),
                "zookeeper.connection.timeout.ms": "60000",
                "broker.id": str(node_id),
            },
        )
        self.brokers.append(made)
        return made

    def read(self, path: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.tree.get(path)[0])
        return found

    def wait_until_gone(self, path: str) -> float:
        """How many seconds it took."""
        begin = time.monotonic()
        while self.tree.exists(path):
            assert time.monotonic() - begin < LIMIT_SECONDS
            time.sleep(0.02)
        return time.monotonic() - begin

    def close(self) -> None:
        """Kill the brokers that run, and leave."""
        for broker in self.brokers:
            if broker.is_running:
                broker.kill()
        self.tree.stop()
        self.tree.close()


def negotiated_ms(place: str, session_id: int) -> int:
    """The timeout of a session, as the server itself has agreed on it."""
    host, _, port = place.partition("/")[0].partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as asked:
        asked.sendall(b"cons")
        text = b"".join(iter(lambda: asked.recv(65_536), b"")).decode()
    (found,) = re.findall(rf"sid=0x{session_id:x},.*?to=(\d+)", text)
    return int(found)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site without running brokers."""
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.requirement("ZKT-02", "ZKT-03", "ZKT-04", "ZKT-12", "ZKT-13", "ZKT-23", "ZKT-27")
@pytest.mark.requirement("CTL-02", "CTL-03", "CTL-15", "CTL-16", "CTL-18", "REP-08")
def test_the_next_broker_takes_over_when_the_controller_is_killed(site: Site) -> None:
    """Liveness, election and epochs by nothing but znodes that other tools know."""
    first = site.broker(1, "first").start()
    second = site.broker(2, "second").start()
    registered = site.read("/brokers/ids/1")
    cluster_id = site.read("/cluster/id")
    assert registered["endpoints"] == [f"PLAINTEXT://127.0.0.1:{first.port}"]
    assert re.fullmatch(r"\d{13}", str(registered["timestamp"]))
    assert (registered["host"], registered["port"]) == ("127.0.0.1", first.port)
    assert (registered["jmx_port"], registered["version"]) == (-1, 5)
    assert site.tree.get("/brokers/ids/1")[1].ephemeralOwner != 0
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", str(cluster_id["id"]))
    assert (site.read("/controller")["brokerid"], site.tree.get("/controller_epoch")[0]) == (
        1,
        b"1",
    )
    assert site.tree.get("/controller")[1].ephemeralOwner != 0

    with Admin(f"{first.address},{second.address}") as admin:
        admin.create_topic(NewTopic("both", 1, assignment=[[1, 2]]))
        admin.create_topic(NewTopic("second", 1, assignment=[[2]]))
    states = [f"/brokers/topics/{name}/partitions/0/state" for name in ("both", "second")]
    assert [site.read(path)["isr"] for path in states] == [[1, 2], [2]]

    # The server ends the session after so long a silence, however busy this machine is.
    assert (
        negotiated_ms(site.place, site.tree.get("/brokers/ids/1")[1].ephemeralOwner) == SESSION_MS
    )
    first.kill()
    seconds = site.wait_until_gone("/brokers/ids/1")
    assert seconds < 10 * SESSION_MS / 1000
    begin = time.monotonic()
    while site.tree.exists("/controller") is None or site.read("/controller")["brokerid"] != 2:
        assert time.monotonic() - begin < LIMIT_SECONDS
        time.sleep(0.02)
    assert site.tree.get("/controller_epoch")[0] == b"2"
    while site.read(states[0])["leader"] != 2:
        assert time.monotonic() - begin < LIMIT_SECONDS
        time.sleep(0.02)
    found = [site.read(path) for path in states]
    assert [(one["leader"], one["leader_epoch"], one["isr"]) for one in found] == [
        (2, 1, [2]),
        (2, 0, [2]),
    ]

    assert second.stop() == 0
    assert site.tree.get_children("/brokers/ids") == [], "a clean stop does not wait for a timeout"
    assert site.read("/cluster/id") == cluster_id


@pytest.mark.slow
@pytest.mark.requirement("ZKT-05")
def test_a_second_broker_with_the_same_id_is_refused(site: Site) -> None:
    """Two brokers under one id would each undo the other's work."""
    site.broker(1, "first").start()
    before = site.tree.get("/brokers/ids/1")
    with pytest.raises(RuntimeError, match="another process has registered as broker 1"):
        site.broker(1, "second").start()

    assert site.tree.get("/brokers/ids/1") == before


@pytest.mark.requirement("ZKT-04")
def test_a_broker_that_is_started_again_at_once_waits_for_its_own_shadow(site: Site) -> None:
    """C-08: the registration of its killed process stays until the session has run out."""
    broker = site.broker(1, "first").start()
    before = site.tree.get("/brokers/ids/1")[1]
    broker.kill()
    broker.start()
    after = site.tree.get("/brokers/ids/1")[1]

    assert after.ephemeralOwner != before.ephemeralOwner
    time.sleep(1.5 * SESSION_MS / 1000)
    assert site.tree.get("/brokers/ids/1")[1] == after


@pytest.mark.slow
def test_a_broker_that_was_killed_before_a_deletion_removes_its_directory(site: Site) -> None:
    """Its deletion is recorded in the tree until it has answered."""
    first = site.broker(1, "first").start()
    second = site.broker(2, "second").start()
    with Admin(f"{first.address},{second.address}") as admin:
        admin.create_topic(NewTopic("t", 2, 2))
        directory = second.data_dir / "t-0"
        begin = time.monotonic()
        while not directory.exists():
            assert time.monotonic() - begin < LIMIT_SECONDS
            time.sleep(0.02)
        second.kill()
        site.wait_until_gone("/brokers/ids/2")
        admin.delete_topics(["t"])
    assert len(site.tree.get_children("/ottla/deleted_topics")) == 1
    assert directory.exists()

    second.start()

    begin = time.monotonic()
    while directory.exists() or site.tree.get_children("/ottla/deleted_topics"):
        assert time.monotonic() - begin < LIMIT_SECONDS
        time.sleep(0.02)


def test_an_address_without_zookeeper_is_told_in_one_sentence(tmp_path: Path) -> None:
    """The user gets neither a traceback nor a start that waits for ever."""
    broker = BrokerProcess(
        tmp_path / "data",
        options={
            "zookeeper.connect": "127.0.0.1:1/x",
            "zookeeper.connection.timeout.ms": "500",
            "broker.id": "1",
        },
    )
    with pytest.raises(RuntimeError, match=r"127\.0\.0\.1:1 within 500 ms"):
        broker.start()
    assert "Traceback" not in broker.stderr()

"""Every broker is stopped and started again in turn, as in an upgrade, without client errors.

A producer with acks=all and idempotence and a consumer group are at work all the time.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from tests.cluster.support.load import PARTITIONS, QUIET, TOPIC, Load, check
from tests.cluster.support.real import RealCluster
from tests.zookeeper.servers import Ensemble, ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path

# Kafka's own session timeout: a stop that waited for it would show in the measurements.
OPTIONS = {
    "zookeeper.session.timeout.ms": "18000",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
# A fifth of a second is usual for leaderships that are moved before the stop; otherwise it is the
# session, or more.
UNAVAILABLE_S = 10.0
CAUGHT_UP_S = 90.0


class Reader:
    """One member of a group, which commits as it reads."""

    def __init__(self, bootstrap: str) -> None:
        self.read: dict[int, list[tuple[int, int]]] = {number: [] for number in range(PARTITIONS)}
        self.errors: list[Any] = []
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "error_cb": self._on_error,
            },
            logger=QUIET,
        )
        self._consumer.subscribe([TOPIC])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self.errors.append(error)

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                self.errors.append(message.error())
            else:
                found = self.read[message.partition()]
                found.append((message.offset(), int(message.value())))
        self._consumer.close()

    @property
    def count(self) -> int:
        """How many different records were read."""
        return sum(len({offset for offset, _number in found}) for found in self.read.values())

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()

    def check(self, sent: int) -> None:
        """No record is missing, and records read again after a rebalance were read in order,
        too."""
        assert self.errors == []
        for partition, found in self.read.items():
            seen = -1
            for offset, number in found:
                assert offset <= seen + 1, f"partition {partition}: {offset} after {seen}"
                assert number == partition + offset * PARTITIONS
                seen = max(seen, offset)
            assert seen + 1 == len(range(partition, sent, PARTITIONS))


def roll(cluster: RealCluster, rounds: int) -> list[float]:
    """Restart all brokers one after the other; how long nothing was acknowledged each time."""
    cluster.create_topic(TOPIC, PARTITIONS)
    cluster.wait_until_whole(TOPIC)
    load, reader = Load(cluster.bootstrap), Reader(cluster.bootstrap)
    gaps = []
    try:
        load.wait_for_all()
        cluster.wait_for("the group reads", lambda: reader.count)
        for node_id in [*cluster.brokers] * rounds:
            broker = cluster.brokers[node_id]
            led = [where for where, told in cluster.newest(TOPIC).items() if told.leader == node_id]
            begun = time.monotonic()
            assert broker.stop() == 0, broker.stderr()[-3000:]
            stopped = time.monotonic()
            broker.start()
            cluster.wait_until_whole(TOPIC)
            load.wait_for_all()
            gaps.append(load.longest_gap(begun, time.monotonic()))
            cluster.tell(
                f"broker {node_id}, leader of {led}, stopped in {stopped - begun:.2f} s; "
                f"longest time without acknowledgements {gaps[-1]:.3f} s"
            )
    finally:
        load.finish()
        deadline = time.monotonic() + CAUGHT_UP_S
        while reader.count < load.sent and time.monotonic() < deadline:
            time.sleep(0.05)
        reader.finish()
    check(load, cluster.bootstrap)
    reader.check(load.sent)
    return gaps


@pytest.mark.timeout(400)
@pytest.mark.requirement("ARC-10")
def test_a_rolling_restart_is_not_noticed(tmp_path: Path) -> None:
    """C-14, C-18: an upgrade is no outage."""
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(tmp_path, zookeeper.address, options=OPTIONS) as cluster,
    ):
        gaps = roll(cluster, 1)
    assert max(gaps) < UNAVAILABLE_S, gaps


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_rolling_restarts_are_not_noticed(tmp_path: Path) -> None:
    """The controller, the coordinator and leaders of everything are among those who stop."""
    with (
        Ensemble() as ensemble,
        RealCluster(tmp_path, ensemble.address, options=OPTIONS) as cluster,
    ):
        gaps = roll(cluster, 20)
    assert max(gaps) < UNAVAILABLE_S, gaps

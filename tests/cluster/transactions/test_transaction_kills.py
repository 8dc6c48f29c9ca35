"""The coordinator of a transaction is killed before, during and after each of its steps.

A real client goes step by step. Readers must find the outcome that it got: a committed transaction
with all its records and its offset, an aborted one with nothing, and an unknown one either way, but
never a part.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.coordinator.hashing import partition_for
from tests.cluster.support.load import QUIET
from tests.cluster.support.pipeline import OFFSETS_TOPIC, OPTIONS, STATE_TOPIC, TARGETS, read
from tests.cluster.support.real import RealCluster
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

TARGET, SOURCE, GROUP, TRANSACTIONAL_ID = "target", "source", "group", "stepwise"
WAIT_S = 120.0
BEFORE, AFTER = "before", "after"


class Point(NamedTuple):
    """When the coordinator dies: before or after a step, or so long after it has begun."""

    step: str
    moment: str | float
    commits: bool = True

    def __str__(self) -> str:
        when = self.moment if isinstance(self.moment, str) else f"{self.moment * 1_000:.0f} ms into"
        return f"{when} {self.step}{'' if self.commits else ' to be aborted'}"


MOMENTS: tuple[str | float, ...] = (BEFORE, 0.001, 0.004, 0.015, AFTER)
POINTS = [
    *[Point(step, m) for step in ("init", "send", "offsets", "commit") for m in MOMENTS],
    *[Point("abort", moment, commits=False) for moment in MOMENTS],
    Point("send", AFTER, commits=False),
    Point("offsets", AFTER, commits=False),
]
SHORT = [Point("send", AFTER), Point("commit", 0.004), Point("abort", BEFORE, commits=False)]


class Steps:
    """One transaction after the other of one transactional id; what was committed so far."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._strike: Callable[[str], Callable[[], None]] = lambda _step: lambda: None
        self._victims: list[int] = []
        self.number = 0
        self.committed: list[int] = []
        self.outcomes: list[str] = []

    def run(self, point: Point) -> None:
        """Run one transaction with one kill; afterwards all brokers are up again."""
        self.number += 1
        try:
            outcome = self._transact(point)
        except KafkaException as error:
            self._cluster.tell(f"{point}: {error}")
            outcome = "unknown"
        for victim in self._victims:
            self._cluster.brokers[victim].start()
        assert self._victims, f"nobody died {point}"
        self._victims.clear()
        for topic in (TARGET, STATE_TOPIC, OFFSETS_TOPIC):
            self._cluster.wait_until_whole(topic)
        self._judge(point, outcome)

    def _transact(self, point: Point) -> str:
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "transactional.id": TRANSACTIONAL_ID,
                "transaction.timeout.ms": 30_000,
                "reconnect.backoff.max.ms": 200,
                "linger.ms": 0,
            },
            logger=QUIET,
        )
        self._step(point, "init", lambda: producer.init_transactions(WAIT_S))
        producer.begin_transaction()

        def send() -> None:
            for partition in range(TARGETS):
                producer.produce(TARGET, b"%d" % self.number, partition=partition)
            assert producer.flush(WAIT_S) == 0

        try:
            self._step(point, "send", send)
            with_offsets = [TopicPartition(SOURCE, 0, self.number)]
            group = Consumer(
                {"bootstrap.servers": self._cluster.bootstrap, "group.id": GROUP}, logger=QUIET
            )
            metadata = group.consumer_group_metadata()
            self._step(
                point,
                "offsets",
                lambda: producer.send_offsets_to_transaction(with_offsets, metadata, WAIT_S),
            )
            group.close()
            if point.commits:
                self._step(point, "commit", lambda: producer.commit_transaction(WAIT_S))
                return "committed"
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._cluster.tell(f"{point}: to be aborted, {error}")
        self._step(point, "abort", lambda: producer.abort_transaction(WAIT_S))
        return "aborted"

    def _step(self, point: Point, step: str, do: Callable[[], object]) -> None:
        if point.step != step or self._victims:
            do()
        elif point.moment == BEFORE:
            self._kill()
            do()
        elif point.moment == AFTER:
            do()
            self._kill()
        else:
            timer = threading.Timer(float(point.moment), self._kill)
            timer.start()
            try:
                do()
            finally:
                timer.join()

    def _kill(self) -> None:
        parts = self._cluster.newest(STATE_TOPIC)
        victim = parts[partition_for(TRANSACTIONAL_ID, len(parts))].leader
        self._victims.append(victim)
        self._cluster.brokers[victim].kill()

    def _judge(self, point: Point, outcome: str) -> None:
        """The offset is the transaction's, and so is its fate."""
        offset = committed_offset(self._cluster.bootstrap)
        if outcome == "unknown":
            outcome = "committed" if offset == self.number else "aborted"
            self._cluster.tell(f"{point}: found it {outcome}")
        if outcome == "committed":
            self.committed.append(self.number)
        self.outcomes.append(outcome)
        assert offset == (self.committed[-1] if self.committed else -1001), point
        found = read(self._cluster.bootstrap, TARGET, "read_committed")
        assert found == [[b"%d" % one for one in self.committed]] * TARGETS, point


def committed_offset(address: str) -> int:
    """Of the group; waits until no transaction holds it back."""
    (found,) = committed_offsets(address, 1)
    return found


def committed_offsets(address: str, count: int) -> list[int]:
    """Of the group in so many partitions of the source; waits as ``committed_offset``."""
    partitions = [TopicPartition(SOURCE, number) for number in range(count)]
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": GROUP, "isolation.level": "read_committed"},
        logger=QUIET,
    )
    try:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                found = consumer.committed(partitions, timeout=60)
            except KafkaException:
                assert time.monotonic() < deadline, "the offset is not to be had"
            else:
                return [int(one.offset) for one in found]
    finally:
        consumer.close()


def kill_at(folder: Path, points: Sequence[Point]) -> Steps:
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(folder, zookeeper.address, options=OPTIONS) as cluster,
    ):
        cluster.create_topic(TARGET, TARGETS)
        cluster.create_topic(SOURCE, 1)
        steps = Steps(cluster)
        warm_up(cluster)
        for point in points:
            steps.run(point)
        cluster.tell(f"outcomes: {dict(zip(map(str, points), steps.outcomes, strict=True))}")
        return steps


def warm_up(cluster: RealCluster) -> None:
    """The brokers' own topics are made when they are needed first."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": TRANSACTIONAL_ID},
        logger=QUIET,
    )
    producer.init_transactions(WAIT_S)
    committed_offset(cluster.bootstrap)
    for topic in (TARGET, SOURCE, STATE_TOPIC, OFFSETS_TOPIC):
        cluster.wait_until_whole(topic)


@pytest.mark.slow
@pytest.mark.requirement("TXN-06", "TXN-11", "TXN-50", "TXN-51", "TXN-52")
def test_a_coordinator_that_dies_leaves_whole_transactions(tmp_path: Path) -> None:
    """The short form of the next test."""
    steps = kill_at(tmp_path, SHORT)

    assert len(steps.outcomes) == len(SHORT)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_coordinator_may_die_at_any_step(tmp_path: Path) -> None:
    """Every step, before it, within it and after it."""
    points = [*POINTS]
    random.shuffle(points)

    steps = kill_at(tmp_path, points)

    assert "committed" in steps.outcomes
    assert "aborted" in steps.outcomes

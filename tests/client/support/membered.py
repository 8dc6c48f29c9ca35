"""A cluster with groups that do not wait, and consumers in them."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from ottla import (
    Admin,
    Consumer,
    ConsumerConfig,
    NewTopic,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from tests.client.support.sites import cluster_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ottla import Cluster, ConsumerRecord
    from tests.client.support.sites import Apaches

SESSION_MS = 6_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"assignors": ("range",)},
    "cooperative": {"assignors": ("cooperative-sticky",)},
    "newer": {"group_protocol": "consumer"},
}
PATIENCE_S = 120.0


class Listener(RebalanceListener):
    """Records its callbacks in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("assigned", [where.partition for where in partitions]))

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("revoked", [where.partition for where in partitions]))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("lost", [where.partition for where in partitions]))


class Site:
    """One test's topic and group, with unique names."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.address = cluster.bootstrap_servers
        self.topic = f"topic-{uuid.uuid4().hex[:8]}"
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self._numbers = itertools.count()

    def parts(self, *numbers: int) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in numbers]

    async def create(self, partitions: int = 1, name: str | None = None) -> None:
        async with Admin(self.address) as admin:
            await admin.create_topic(NewTopic(name or self.topic, partitions))

    async def fill(self, count: int, partition: int = 0, topic: str | None = None) -> None:
        """Write records with consecutive numbers as values, continuing from earlier calls."""
        async with Producer(self.address) as producer:
            for _ in range(count):
                value = b"%d" % next(self._numbers)
                delivery = await producer.send(topic or self.topic, value, partition=partition)
            await delivery

    def consumer(self, **changes: Any) -> Consumer:
        """A consumer of the group, with settings that make a test short."""
        settings: dict[str, Any] = {
            "group_id": self.group,
            "offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": SESSION_MS,
            "metadata_max_age_ms": 500,
            **changes,
        }
        return Consumer(self.address, ConsumerConfig(**settings))

    async def committed(self) -> dict[int, int]:
        """The committed offsets of the group in the topic."""
        async with Admin(self.address) as admin:
            found = await admin.groups.offsets(self.group)
        return {where.partition: one.offset for where, one in found.items()}

    async def members(self) -> int:
        """How many the coordinator counts."""
        async with Admin(self.address) as admin:
            return len((await admin.groups.describe(self.group)).members)


@pytest.fixture(scope="module")
def groups_cluster(kind: str, apaches: Apaches) -> Iterator[Cluster]:
    """One broker for a module's tests."""
    with cluster_of(kind, apaches, settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def site(groups_cluster: Cluster) -> Site:
    """A place for one test."""
    return Site(groups_cluster)


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """The next records, exactly that many."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(records) < count:
            records += await consumer.poll(200, count - len(records))
    return records


async def poll_until(holds: Callable[[], bool], *consumers: Consumer) -> list[ConsumerRecord]:
    """Let all of them poll until ``holds``; return the records that they got."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            for found in await asyncio.gather(*(one.poll(50) for one in consumers)):
                records += found
    return records

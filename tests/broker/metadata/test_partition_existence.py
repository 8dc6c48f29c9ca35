"""Which partitions do not exist, as the store says."""

from __future__ import annotations

import pytest

from ottla.broker.engine.tasks import Tasks
from ottla.broker.metadata.partition_existence import missing_partitions
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.store import paths
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.store import ConnectionLoss
from ottla.protocol.ids import TopicPartition
from tests.broker.support.node import DIRECTORY, HandClock
from tests.coordinator.store.flaky import FlakySession, FlakyStore

T0, T1, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)
TOPIC = paths.build_topic(paths.TopicPayload(bytes(16), {0: (1,)}))


async def with_topic(data: bytes) -> FlakySession:
    """A session with a store that has the topic ``t``."""
    tasks = Tasks()
    store = FlakyStore(await EmbeddedStore.open(MemoryDisk(), HandClock(), tasks.spawn, DIRECTORY))
    session = await store.connect()
    for path in ("/brokers", paths.TOPICS):
        await session.create(path)
    await session.create(paths.topic("t"), data)
    return session


async def test_a_partition_is_missing_without_its_topic_and_beyond_its_count() -> None:
    """Markers for both are left out, since no consumer will ever read them."""
    session = await with_topic(TOPIC)

    assert await missing_partitions(session, [T0, T1, GONE]) == {T1, GONE}


async def test_a_topic_that_cannot_be_read_is_not_missing() -> None:
    """Its partitions are there, whatever became of the znode: their readers wait for markers."""
    session = await with_topic(b"not what a topic looks like")

    assert await missing_partitions(session, [T0, GONE]) == {GONE}


async def test_without_the_store_nothing_is_said() -> None:
    """Nothing is known, so nothing may be left out."""
    session = await with_topic(TOPIC)
    session.suspend()

    with pytest.raises(ConnectionLoss):
        await missing_partitions(session, [T0])

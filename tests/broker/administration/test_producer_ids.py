"""Producer ids of several brokers that take their blocks from one store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.administration.producer_ids import ProducerIds
from ottla.broker.engine.tasks import Tasks
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.controller.producer_ids import PRODUCER_IDS_PER_BLOCK
from ottla.coordinator.store import paths
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.broker.support.node import DIRECTORY, HandClock
from tests.coordinator.store.flaky import FlakySession, FlakyStore

if TYPE_CHECKING:
    from ottla.coordinator.store.store import Watch, Znode

BROKERS = (1, 2, 3)


async def open_store() -> FlakyStore:
    """A store with nothing in it but the place of the blocks."""
    tasks = Tasks()
    store = FlakyStore(await EmbeddedStore.open(MemoryDisk(), HandClock(), tasks.spawn, DIRECTORY))
    session = await store.connect()
    parent = ""
    for part in paths.PRODUCER_ID_BLOCK.strip("/").split("/"):
        parent = f"{parent}/{part}"
        await session.create(parent)
    return store


class Meeting(FlakySession):
    """A session whose first read is answered when all brokers have read: none has written yet."""

    barrier: asyncio.Barrier | None = None

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        found = await super().get(path, watch)
        if self.barrier is not None:
            barrier, self.barrier = self.barrier, None
            await barrier.wait()
        return found


@pytest.mark.requirement("IDM-13")
async def test_brokers_that_take_a_block_at_the_same_moment_get_different_ones() -> None:
    """All have read the same block before one of them writes: with the same ids, one producer's
    batches would be taken for repetitions of another's, and be lost."""
    store = await open_store()
    barrier = asyncio.Barrier(len(BROKERS))
    makers = []
    for node_id in BROKERS:
        session = Meeting((await store.connect()).inner)
        session.barrier = barrier
        makers.append(ProducerIds(node_id, lambda session=session: session))  # type: ignore[misc]

    async def take(maker: ProducerIds) -> list[int]:
        return [await maker.allocate() for _ in range(PRODUCER_IDS_PER_BLOCK + 1)]

    taken = await asyncio.gather(*(take(maker) for maker in makers))

    ids = [one for each in taken for one in each]
    assert len(set(ids)) == len(ids) == len(BROKERS) * (PRODUCER_IDS_PER_BLOCK + 1)


@pytest.mark.requirement("IDM-13")
async def test_a_block_whose_answer_was_lost_is_not_given_out() -> None:
    """The broker does not know whether it has it, and another one may have seen it taken."""
    store = await open_store()
    session, other = await store.connect(), await store.connect()
    maker, second = ProducerIds(1, lambda: session), ProducerIds(2, lambda: other)
    session.answers_to_lose = 1

    ids = [await maker.allocate(), await second.allocate()]

    assert ids == [PRODUCER_IDS_PER_BLOCK, 2 * PRODUCER_IDS_PER_BLOCK]


async def test_without_the_store_the_client_is_told_to_come_again() -> None:
    """A guessed producer id could belong to another producer."""
    store = await open_store()
    session = await store.connect()
    maker = ProducerIds(1, lambda: session)
    session.suspend()

    with pytest.raises(KafkaError) as refused:
        await maker.allocate()
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    session.resume()
    assert await maker.allocate() == 0

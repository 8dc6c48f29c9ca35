"""The transactional producer in a cluster of brokers that die."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla import (
    Admin,
    Consumer,
    ConsumerConfig,
    Isolation,
    NewTopic,
    Producer,
    ProducerConfig,
    RequestRefused,
    TopicPartition,
)
from ottla.wire.backoff import Backoff
from tests.broker.support.brokers import Brokers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK = Backoff(20, 200)
CONFIG = ProducerConfig(
    transactional_id="id", request_timeout_ms=5_000, retry_backoff=QUICK, reconnect_backoff=QUICK
)


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    """Three of them."""
    made = Brokers(3)
    await made.start()
    yield made
    await made.stop()


def addresses(brokers: Brokers) -> str:
    return ",".join(brokers.bootstrap)


async def visible(brokers: Brokers, partition: int) -> list[bytes | None]:
    """Records that a reader of committed records gets now."""
    where = TopicPartition("t", partition)
    found: list[bytes | None] = []
    config = ConsumerConfig(isolation=Isolation.READ_COMMITTED, offset_reset="earliest")
    async with Consumer(addresses(brokers), config) as consumer:
        end = (await consumer.end_offsets([where]))[where]
        consumer.assign([where])
        while (consumer.position(where) or 0) < end:
            found += [record.value for record in await consumer.poll(1_000)]
    return found


async def coordinator_of(brokers: Brokers, transactional_id: str) -> int:
    async with Admin(addresses(brokers)) as admin:
        view = (await admin.transactions.describe_transactions([transactional_id]))[
            transactional_id
        ]
    assert not isinstance(view, RequestRefused)
    return view.coordinator_id


async def create(brokers: Brokers, *assignment: list[int]) -> None:
    async with Admin(addresses(brokers)) as admin:
        await admin.create_topic(NewTopic("t", assignment=assignment))


async def shown(brokers: Brokers, partition: int) -> list[bytes | None]:
    """Committed records of the partition, as soon as there are any, within two minutes."""
    deadline = asyncio.get_running_loop().time() + 120
    while not (found := await visible(brokers, partition)):
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(0.1)
    return found


@pytest.mark.requirement("TXN-33", "TXN-60")
async def test_a_dead_partition_delays_only_itself(brokers: Brokers) -> None:
    """The outcome is fixed before any partition gets a marker: partitions have no vote."""
    await create(brokers, [1], [2], [3])
    async with Producer(addresses(brokers), CONFIG) as producer:
        await producer.init_transactions()
        coordinator = await coordinator_of(brokers, "id")
        dead, *alive = sorted(range(3), key=lambda partition: partition + 1 == coordinator)
        await producer.begin_transaction()
        for partition in range(3):
            await (await producer.send("t", b"x", partition=partition))
        await brokers.kill(dead + 1)
        commit = asyncio.ensure_future(producer.commit_transaction())
        meanwhile = [await shown(brokers, partition) for partition in alive]
        await brokers.start_one(dead + 1)
        async with asyncio.timeout(90):
            await commit
        afterwards = await shown(brokers, dead)

    assert meanwhile == [[b"x"], [b"x"]]
    assert afterwards == [b"x"]


@pytest.mark.requirement("TXN-50", "TXN-43", "TXN-45", "TXN-05", "TXN-06")
async def test_a_coordinator_that_dies_before_the_end_is_replaced(brokers: Brokers) -> None:
    """The producer finds its successor, which knows of the transaction, and ends it there."""
    await create(brokers, [1, 2, 3], [2, 3, 1])
    async with Producer(addresses(brokers), CONFIG) as producer:
        await producer.init_transactions()
        for number in range(3):
            await producer.begin_transaction()
            for partition in range(2):
                await producer.send("t", b"%d" % number, partition=partition)
            await producer.flush()
            coordinator = await coordinator_of(brokers, "id")
            await brokers.kill(coordinator)
            async with asyncio.timeout(90):
                await producer.commit_transaction()
            await brokers.start_one(coordinator)
            await brokers.until_in_sync("t", 3)
            await brokers.until_in_sync("__transaction_state", 3, 0)

    for partition in range(2):
        # The last commit succeeded; its markers may still be on their way (KIP-98).
        async with asyncio.timeout(60):
            while len(await visible(brokers, partition)) < 3:
                await asyncio.sleep(0.05)
        assert await visible(brokers, partition) == [b"0", b"1", b"2"]

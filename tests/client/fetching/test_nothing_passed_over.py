"""Fetched records reach the application, whatever fails while they are returned."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla import RebalanceListener
from ottla.client.consumer import Consumer
from ottla.client.records.interceptors import ConsumerInterceptor
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.builder import encode_batch
from ottla.wire.errors import RequestRefused
from tests.client.support.membered import PROTOCOLS, groups_cluster, poll_until, read, site
from tests.client.test_consumer import config, fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.fetching.completed_fetch import CompletedFetch
    from ottla.client.records.consumer_record import ConsumerRecord
    from tests.client.support.membered import Site
    from tests.client.support.toy_broker import ToyCluster

__all__ = ["groups_cluster", "site"]

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


async def buffered(consumer: Consumer, *partitions: TopicPartition) -> None:
    """Return when something of each waits for the application."""
    async with asyncio.timeout(90):
        while not {one.partition for one in consumer._fetcher.completed}.issuperset(partitions):
            await asyncio.sleep(0.01)


async def test_damage_elsewhere_costs_a_paused_partition_nothing(toy: ToyCluster) -> None:
    """Records ready for the partition are in no later answer, so they must not be dropped."""
    topic = toy.add_topic("t", 2)
    fill(topic, [b"kept"], 0)
    damaged = bytearray(encode_batch([(1, None, b"x", ())]))
    damaged[-1] ^= 1
    topic.partitions[1].append(bytes(damaged))
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST, SECOND])
        await buffered(consumer, FIRST, SECOND)
        consumer.pause(FIRST)
        with pytest.raises(RequestRefused, match="damaged"):
            await consumer.poll()
        consumer.pause(SECOND)
        consumer.resume(FIRST)

        (record,) = await consumer.poll(5_000)

    assert record.value == b"kept"


class Failing(ConsumerInterceptor):
    """Fails the first time."""

    def __init__(self) -> None:
        self.has_failed = False

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        if records and not self.has_failed:
            self.has_failed = True
            raise ValueError("not now")
        return records


async def test_what_an_interceptor_fails_on_comes_again(toy: ToyCluster) -> None:
    """The application has not seen those records, so no commit may pass them."""
    topic = toy.add_topic("t")
    fill(topic, [b"0", b"1", b"2"])
    async with Consumer(toy.bootstrap, config(), interceptors=(Failing(),)) as consumer:
        consumer.assign([FIRST])
        with pytest.raises(ValueError, match="not now"):
            await consumer.poll(5_000)

        records = await read(consumer, 3)

    assert [record.value for record in records] == [b"0", b"1", b"2"]


async def test_what_could_not_be_decoded_for_want_of_memory_comes_again(toy: ToyCluster) -> None:
    """An application that catches MemoryError and polls again must not skip records."""
    topic = toy.add_topic("t")
    fill(topic, [b"0"])

    def take(completed: CompletedFetch) -> bool:
        raise MemoryError

    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        with pytest.raises(MemoryError):
            await consumer._collect(take, 5_000)

        (record,) = await consumer.poll(5_000)

    assert record.value == b"0"


class Told(RebalanceListener):
    """Remembers what is revoked."""

    def __init__(self) -> None:
        self.revoked: list[int] = []

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.revoked += [where.partition for where in partitions]


async def test_a_poll_cancelled_within_a_rebalance_leaves_no_commit_behind(site: Site) -> None:
    """A position stored late, under the next generation, would take the new owner's back."""
    settings = {**PROTOCOLS["cooperative"], "auto_commit_interval_ms": 100}
    faults = site.cluster.faults
    await site.create(2)
    for number in (0, 1):
        await site.fill(5, number)
    told = Told()
    async with site.consumer(**settings) as first, site.consumer(**settings) as second:
        await first.subscribe([site.topic], told)
        await read(first, 10)
        await second.subscribe([site.topic])
        faults.fail_request("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", count=1_000)
        async with asyncio.timeout(90):
            while not told.revoked:
                try:
                    await asyncio.wait_for(first.poll(500), 0.3)
                except TimeoutError:
                    continue
        faults.clear()
        await poll_until(lambda: len(second.assignment) == 1, first, second)
        (given,) = told.revoked
        await site.fill(5, given)
        await poll_until(lambda: second.position(second.assignment[0]) == 10, first, second)
        await second.commit()
        for _ in range(5):
            await site.fill(1, 1 - given)
            await read(first, 1)
            await asyncio.sleep(0.12)

        assert (await site.committed())[given] == 10

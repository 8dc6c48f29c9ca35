"""Replication as it is: brokers with sockets, controller, fetchers, and the client over it all."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.producer import Producer
from ottla.client.settings.config import ClientConfig, ProducerConfig
from ottla.protocol.records.batch import check_crc, iterate_batches
from ottla.protocol.records.record import read_records

if TYPE_CHECKING:
    from tests.broker.support.brokers import Brokers

TOPIC = "t"
PARTITIONS = 3


async def make_topic(brokers: Brokers, partitions: int = 1, **configs: str) -> None:
    async with Admin(",".join(brokers.bootstrap), ClientConfig()) as admin:
        await admin.create_topic(NewTopic(TOPIC, partitions, 3, configs))
    await brokers.until(
        lambda: all(brokers.leader(TOPIC, index) > 0 for index in range(partitions))
    )


def values_in(content: bytes) -> list[bytes]:
    found: list[bytes] = []
    for batch in iterate_batches(content):
        assert check_crc(batch)
        found += [bytes(record.value or b"") for record in read_records(batch, 1 << 24)]
    return found


class Load:
    """A producer with acks=all that runs until it is stopped, and remembers acknowledged values."""

    def __init__(self, brokers: Brokers) -> None:
        config = ProducerConfig(acks="all", delivery_timeout_ms=60_000, request_timeout_ms=10_000)
        self._producer = Producer(",".join(brokers.bootstrap), config)
        self.acknowledged: list[bytes] = []
        self.sent_count = 0
        self._stopping = False

    async def __aenter__(self) -> Load:
        await self._producer.start()
        self._task = asyncio.create_task(self._run())
        return self

    async def _run(self) -> None:
        while not self._stopping:
            value = b"value %d" % self.sent_count
            delivery = await self._producer.send(
                TOPIC, value, partition=self.sent_count % PARTITIONS
            )
            self.sent_count += 1
            await delivery
            self.acknowledged.append(value)

    async def progress(self, count: int = 20) -> None:
        """Wait until that many more are acknowledged."""
        target = len(self.acknowledged) + count
        async with asyncio.timeout(60):
            while len(self.acknowledged) < target:
                assert not self._task.done(), self._task.exception()
                await asyncio.sleep(0.02)

    async def __aexit__(self, *_error: object) -> None:
        self._stopping = True
        await self._task
        await self._producer.close()


async def check_everything_is_there(brokers: Brokers, load: Load) -> None:
    """All replicas alike, all that was acknowledged in them, nothing twice."""
    found: Counter[bytes] = Counter()
    for index in range(PARTITIONS):
        await brokers.until_equal(TOPIC, index)
        contents = {brokers.content(node_id, TOPIC, index) for node_id in brokers.alive}
        assert len(contents) == 1
        found.update(values_in(contents.pop()))
    assert set(load.acknowledged) <= found.keys()
    assert max(found.values()) == 1


@pytest.mark.requirement("REP-03", "REP-26")
async def test_all_replicas_are_equal_byte_by_byte(brokers: Brokers) -> None:
    """Over the real wire, in sessions, with batches of every kind."""
    await make_topic(brokers, PARTITIONS)
    for compression in ("none", "gzip", "lz4"):
        config = ProducerConfig(compression=compression)
        async with Producer(",".join(brokers.bootstrap), config) as producer:
            for number in range(60):
                await producer.send(TOPIC, b"v" * number, partition=number % PARTITIONS)
            await producer.flush()
    for index in range(PARTITIONS):
        await brokers.until_equal(TOPIC, index)
        contents = {brokers.content(node_id, TOPIC, index) for node_id in brokers.alive}
        assert len(contents) == 1
        assert len(values_in(contents.pop())) == 60
    for broker in brokers.alive.values():
        # One for each of the two other leaders.
        assert sorted(fetcher.leader for fetcher in broker.parts.fetchers) == sorted(
            {1, 2, 3} - {broker.node_id}
        )
        assert all(one.lag == 0 for one in broker.parts.fetchers.followed)
        assert all(fetcher.link.is_incremental for fetcher in broker.parts.fetchers)


@pytest.mark.requirement("REP-17")
async def test_a_killed_leader_comes_back_with_the_same_log(brokers: Brokers) -> None:
    """Its unreplicated tail is truncated; acknowledged records stay, once."""
    await make_topic(brokers, PARTITIONS)
    async with Load(brokers) as load:
        for _ in range(2):
            await load.progress()
            killed = brokers.leader(TOPIC)
            await brokers.kill(killed)
            await load.progress()
            await brokers.start_one(killed)
            await load.progress()
            await brokers.until_in_sync(TOPIC, 3)
    await check_everything_is_there(brokers, load)


async def test_a_follower_that_was_away_catches_up(brokers: Brokers) -> None:
    """While away it holds up no producer; once back it gets all records."""
    await make_topic(brokers, PARTITIONS)
    async with Load(brokers) as load:
        await load.progress()
        away = next(one for one in brokers.alive if one != brokers.leader(TOPIC))
        await brokers.kill(away)
        await load.progress(100)
        await brokers.start_one(away)
        await load.progress()
        for index in range(PARTITIONS):
            await brokers.until_in_sync(TOPIC, 3, index)
    await check_everything_is_there(brokers, load)


async def test_clean_restarts_one_by_one_lose_nothing(brokers: Brokers) -> None:
    """An upgrade of the cluster under load."""
    await make_topic(brokers, PARTITIONS)
    async with Load(brokers) as load:
        for node_id in (1, 2, 3):
            await load.progress()
            await brokers.stop_one(node_id)
            await load.progress()
            await brokers.start_one(node_id)
            for index in range(PARTITIONS):
                await brokers.until_in_sync(TOPIC, 3, index)
    await check_everything_is_there(brokers, load)


@pytest.mark.requirement("REP-18")
async def test_two_of_three_may_die(brokers: Brokers) -> None:
    """f + 1 replicas for f failures; min.insync.replicas is 1 here."""
    await make_topic(brokers, PARTITIONS)
    async with Load(brokers) as load:
        await load.progress()
        for node_id in (1, 2):
            await brokers.kill(node_id)
            await load.progress()
        for node_id in (1, 2):
            await brokers.start_one(node_id)
        for index in range(PARTITIONS):
            await brokers.until_in_sync(TOPIC, 3, index)
    await check_everything_is_there(brokers, load)

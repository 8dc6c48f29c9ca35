"""Batches that are larger than their topic allows (KIP-126)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import ottla
from ottla import ErrorCode, RequestRefused, TopicPartition
from ottla.client.records.row_runs import RowRun, ValueRows
from ottla.client.sending.batch import Batch, BatchPhase
from ottla.client.sending.sequences import SEQUENCE_MODULUS, Stamp
from tests.client.support.sites import cluster_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.support.sites import Apaches

LIMIT_BYTES = 4_000
VALUES = [b"%05d" % number + b"." * 400 for number in range(120)]


@pytest.fixture(scope="module")
def small(kind: str, apaches: Apaches) -> Iterator[ottla.Cluster]:
    """One broker, for topics with a limit."""
    with cluster_of(kind, apaches) as cluster:
        yield cluster


@pytest.fixture
def where(small: ottla.Cluster) -> TopicPartition:
    """A partition that takes few records at a time."""
    name = f"small-{uuid4().hex[:8]}"
    small.create_topic(name, configs={"max.message.bytes": str(LIMIT_BYTES)})
    return TopicPartition(name, 0)


async def stored(cluster: ottla.Cluster, where: TopicPartition) -> list[bytes]:
    """Everything that is there, at offsets without a hole."""
    found: list[bytes] = []
    async with ottla.Consumer(cluster.bootstrap_servers, offset_reset="earliest") as consumer:
        consumer.assign([where])
        end = (await consumer.end_offsets([where]))[where]
        while len(found) < end:
            for record in await consumer.poll(1_000):
                assert record.offset == len(found)
                found.append(record.value or b"")
    return found


async def test_single_records_go_in_smaller_batches_in_their_order(
    small: ottla.Cluster, where: TopicPartition
) -> None:
    """An application that sends small records need not know the topic's limit for batches."""
    async with ottla.Producer(small.bootstrap_servers, linger_ms=50) as producer:
        waiting = [await producer.send(where.topic, value) for value in VALUES]
        delivered = [await delivery for delivery in waiting]

    assert await stored(small, where) == VALUES
    assert [one.offset for one in delivered] == list(range(len(VALUES)))


async def test_records_that_came_together_are_found_where_the_delivery_says(
    small: ottla.Cluster, where: TopicPartition
) -> None:
    """Other producers may write between the pieces, so each piece reports its own offsets."""
    async with ottla.Producer(small.bootstrap_servers) as producer:
        first, second = await asyncio.gather(
            producer.send_batch(where.topic, VALUES[:70]),
            producer.send_batch(where.topic, VALUES[70:]),
        )
        places = [*await first, *await second]

    found = await stored(small, where)
    assert sorted(found) == VALUES
    told = [found[one.base_offset + at] for one in places for at in range(one.record_count)]
    assert told == VALUES


async def test_one_record_that_is_too_large_does_not_take_the_others_with_it(
    small: ottla.Cluster, where: TopicPartition
) -> None:
    """Only that record fails; its neighbours are stored once and in order."""
    values = [*VALUES[:9], b"!" * (2 * LIMIT_BYTES), *VALUES[9:20]]
    failures = []
    async with ottla.Producer(small.bootstrap_servers, linger_ms=50) as producer:
        waiting = [await producer.send(where.topic, value) for value in values]
        for index, delivery in enumerate(waiting):
            try:
                await delivery
            except RequestRefused as error:
                failures.append((index, error.code))

    assert failures == [(9, ErrorCode.MESSAGE_TOO_LARGE)]
    assert await stored(small, where) == VALUES[:20]


async def test_a_transaction_with_a_batch_that_is_too_large_commits(
    small: ottla.Cluster, where: TopicPartition
) -> None:
    """Its sequence numbers have no gap, so nothing has to be aborted."""
    async with ottla.Producer(
        small.bootstrap_servers, transactional_id=where.topic, linger_ms=50
    ) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for value in VALUES:
                await producer.send(where.topic, value)

    async with ottla.Consumer(
        small.bootstrap_servers, offset_reset="earliest", isolation="read_committed"
    ) as consumer:
        consumer.assign([where])
        found: list[bytes | None] = []
        async with asyncio.timeout(90):
            while len(found) < len(VALUES):
                found += [record.value for record in await consumer.poll(500)]
    assert found == VALUES


def test_halves_share_the_numbers_of_the_whole() -> None:
    """Another number would be a gap, or a record that is stored twice; after the last comes 0."""
    batch = Batch(TopicPartition("t", 0), 5.0)
    batch.part = RowRun(ValueRows(VALUES, 0), 10, 17)
    batch.size_bytes += batch.part.size_bytes
    batch.stamp = Stamp(7, 1, SEQUENCE_MODULUS - 2)
    batch.follows_gap = True

    first, second = batch.split()

    assert (first.record_count, second.record_count) == (3, 4)
    assert first.stamp == batch.stamp
    assert second.stamp == Stamp(7, 1, 1)
    assert (first.follows_gap, second.follows_gap) == (True, False)
    assert {first.phase, second.phase} == {BatchPhase.CLOSED}
    assert first.size_bytes + second.size_bytes == batch.size_bytes + 61

"""Reading from brokers that do what real ones do too seldom for a test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.spark.reader import BatchReader
from ottla.protocol.apis import ApiKey
from ottla.protocol.records.builder import encode_batch
from tests.client.spark.support.driven import Query
from tests.client.spark.support.topics import given, offsets_in
from tests.client.test_ranges import put

if TYPE_CHECKING:
    from tests.client.support.toy_broker import Seen, ToyCluster

QUICK: dict[str, Any] = {"fetchOffset.retryIntervalMs": 1}


async def read(toy: ToyCluster, **options: object) -> dict[int, list[int]]:
    """A batch query: the offsets by partition. In a thread, since the toy runs in this one."""
    reader = BatchReader(given(toy.bootstrap, {"subscribe": "t", **options}))
    return await asyncio.to_thread(lambda: offsets_in(reader, reader.partitions()))


def query_of(toy: ToyCluster, **options: object) -> Query:
    """A streaming query that reads from the beginning."""
    return Query(toy.bootstrap, subscribe="t", startingOffsets="earliest", **QUICK, **options)


# Compaction.


def compacted(toy: ToyCluster) -> None:
    """Records at 2, 3, 4, 10, 11, and nothing else up to 40: before them, between them, at the end
    of a batch, and from the last one to the end of the log."""
    topic = toy.add_topic("t")
    put(topic, 2, 3)
    put(topic, 10, 2, last_offset_delta=9)
    topic.partitions[0].next_offset = 40


@pytest.mark.timeout(60)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_holes_of_compaction_are_neither_losses_nor_waited_for(
    toy: ToyCluster, isolation: str
) -> None:
    """A task ends at its end offset although no record is there, also when its whole range is a
    hole."""
    compacted(toy)
    options: dict[str, Any] = {"kafka.isolation.level": isolation}

    everything = {0: [2, 3, 4, 10, 11]}
    assert await read(toy, **options) == everything
    assert await read(toy, maxRecordsPerPartition=4, **options) == everything
    assert await read(toy, minPartitions=40, **options) == everything
    ends = {"startingOffsets": '{"t": {"0": 3}}', "endingOffsets": '{"t": {"0": 11}}'}
    assert await read(toy, **ends, **options) == {0: [3, 4, 10]}
    assert await read(toy, startingOffsets='{"t": {"0": 25}}', **options) == {}


@pytest.mark.timeout(60)
async def test_a_stream_passes_holes_of_compaction(toy: ToyCluster) -> None:
    """Batch after batch, some of which are empty, and on when there is something new."""
    compacted(toy)
    query = query_of(toy, maxOffsetsPerTrigger=9)

    batches = [await asyncio.to_thread(query.batch) for _ in range(6)]
    assert batches == [{0: [2, 3, 4]}, {0: [10, 11]}, {}, {}, {}, None]
    put(toy.topics["t"], 45, 1)
    assert await asyncio.to_thread(query.batch) == {0: [45]}


# Brokers that lag.


async def test_a_partition_that_a_broker_has_not_heard_of_yet_is_no_loss(toy: ToyCluster) -> None:
    """Brokers learn of added partitions at different times, and any of them may be asked."""
    topic = toy.add_topic("t", 2)
    for number in range(2):
        topic.partitions[number].append(encode_batch([(1, None, b"x", ())]))
    query = query_of(toy, commitOffsets=False)
    assert await asyncio.to_thread(query.batch) == {0: [0], 1: [0]}
    newest = topic.partitions.pop()
    asked: list[Seen] = []

    def hear_of_it(seen: Seen) -> None:
        if seen.api_key is ApiKey.METADATA and seen.request.topics:
            asked.append(seen)
            if len(asked) == 2:
                topic.partitions.append(newest)

    toy.judge = hear_of_it
    assert await asyncio.to_thread(lambda: query.restarted().batch()) is None

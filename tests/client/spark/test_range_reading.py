"""How a task reads its range, with brokers whose every answer is known."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.ranges import OffsetRange
from ottla.client.spark import reading
from ottla.client.spark.errors import RecordsLost
from ottla.client.spark.options import Options
from ottla.client.spark.reading import RangeReading, Shelf
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition, uuid_to_text
from ottla.protocol.records.builder import encode_batch
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.client.spark.support.topics import given
from tests.client.support.toy_broker import ToyBroker
from tests.client.test_ranges import put

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    import pyarrow as pa

    from ottla.protocol.ports import Clock
    from tests.client.support.toy_broker import Seen, ToyCluster

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
# One batch at a time.
SMALL: dict[str, Any] = {"kafka.max.partition.fetch.bytes": 1}
TIMEOUT_MS = 20_000
BUSY_MS = 15_000.0


def options_of(toy: ToyCluster, **options: object) -> Options:
    texts = given(toy.bootstrap, {"subscribe": "t", **SMALL, **options})
    return Options.of({**texts, "kafkaConsumer.pollTimeoutMs": str(TIMEOUT_MS)})


class SkippingClock:
    """A clock that can be moved forward without waiting."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.skipped_ms = 0.0

    def now_ms(self) -> float:
        return self._clock.now_ms() + self.skipped_ms

    async def sleep(self, delay_ms: float) -> None:
        await self._clock.sleep(delay_ms)


@asynccontextmanager
async def reading_of(
    one: OffsetRange, options: Options
) -> AsyncIterator[tuple[AsyncGenerator[pa.RecordBatch, None], SkippingClock]]:
    """Its batches, and the clock that it looks at."""
    consumer = await Shelf().take(options)
    found = RangeReading(consumer, one, options)
    clock = SkippingClock(found._clock)
    found._clock = clock  # type: ignore[assignment]
    try:
        yield found.batches(), clock
    finally:
        await consumer.close()


async def offsets(batches: AsyncGenerator[pa.RecordBatch, None]) -> list[int]:
    return [offset for batch in [one async for one in batches] for offset in offsets_of(batch)]


def offsets_of(batch: pa.RecordBatch) -> list[int]:
    found: list[int] = batch.column("offset").to_pylist()
    return found


async def test_the_time_that_spark_takes_is_not_the_brokers(
    toy: ToyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task waits while Spark writes its rows; an answer after that wait has not timed out."""
    monkeypatch.setattr(reading, "WAIT_MS", 2 * reading.FIRST_WAIT_MS)
    topic = toy.add_topic("t")
    put(topic, 0, 1)

    def late(seen: Seen) -> None:
        if seen.api_key is ApiKey.LIST_OFFSETS and topic.partitions[0].next_offset == 1:
            put(topic, 1, 1)

    toy.judge = late
    async with reading_of(OffsetRange(HERE, 0, 2), options_of(toy)) as (batches, clock):
        assert offsets_of(await anext(batches)) == [0]
        clock.skipped_ms += 2 * TIMEOUT_MS
        assert await offsets(batches) == [1]


async def test_invisible_records_are_progress(toy: ToyCluster) -> None:
    """A stretch of aborted transactions may take longer than the wait for a record."""
    topic = toy.add_topic("t")
    marker = encode_marker(TransactionMarker(1, 0, ControlType.ABORT, 0), 0)
    for _ in range(8):
        topic.partitions[0].append_marker(marker)
    put(topic, 8, 1)
    async with reading_of(OffsetRange(HERE, 0, 9), options_of(toy)) as (batches, clock):

        def slow(seen: Seen) -> None:
            if seen.api_key is ApiKey.FETCH:
                clock.skipped_ms += BUSY_MS

        toy.judge = slow
        assert await offsets(batches) == [8]
        # Nor is there a reason to doubt that the log is whole.
        assert toy.counts()[ApiKey.LIST_OFFSETS] == 0


async def test_what_went_wrong_behind_one_range_is_nothing_to_the_next(toy: ToyCluster) -> None:
    """Workers keep their consumers, which fetch on while their range ends."""
    topic = toy.add_topic("t", 2)
    for log in topic.partitions:
        log.append(encode_batch([(1, None, b"x", ())]))

    def forbid(seen: Seen) -> ErrorCode | None:
        if seen.api_key is ApiKey.FETCH:
            for asked in seen.request.topics:
                for part in asked.partitions:
                    if (part.partition, part.fetch_offset) == (0, 1):
                        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None

    toy.judge = forbid
    shelf, options = Shelf(), options_of(toy)
    for where in (HERE, THERE):
        consumer = await shelf.take(options)
        batches = RangeReading(consumer, OffsetRange(where, 0, 1), options).batches()
        assert await offsets(batches) == [0]
        if where == HERE:
            async with asyncio.timeout(30):
                await consumer._fetcher.arrived.wait()
        await shelf.put(options, consumer)
    await (await shelf.take(options)).close()


async def test_a_task_waits_for_a_broker_that_is_restarted(toy: ToyCluster) -> None:
    """If Spark tries a task only once, a failure would end the query."""
    toy.add_topic("t")
    options = options_of(toy)
    broker = toy.nodes.pop(1)
    broker.close()

    def restart() -> None:
        toy.nodes[1] = ToyBroker(toy, 1, broker.address.port)

    asyncio.get_running_loop().call_later(0.1, restart)
    consumer = await Shelf().take(options)
    # Not before, and not given up either.
    assert 1 in toy.nodes
    assert await consumer.partitions_of("t") == [HERE]
    await consumer.close()


@pytest.mark.parametrize("fails", [True, False])
async def test_a_leader_with_another_past_is_a_loss(toy: ToyCluster, fails: bool) -> None:
    """Records that were read are not in its log, and those there instead were never read."""
    topic = toy.add_topic("t")
    put(topic, 0, 4)
    log = topic.partitions[0]

    def fence(seen: Seen) -> ErrorCode | None:
        if seen.api_key is not ApiKey.FETCH:
            return None
        epochs = [
            part.current_leader_epoch for one in seen.request.topics for part in one.partitions
        ]
        return None if epochs == [log.leader_epoch] else ErrorCode.FENCED_LEADER_EPOCH

    options = options_of(toy, failOnDataLoss=fails, **{"fetchOffset.retryIntervalMs": 1})
    async with reading_of(OffsetRange(HERE, 0, 8), options) as (batches, _):
        assert offsets_of(await anext(batches)) == [0, 1, 2, 3]
        log.leader_epoch, log.epoch_ends, toy.judge = 1, {0: 2}, fence
        put(topic, 4, 4)
        if fails:
            with pytest.raises(RecordsLost, match="another one from offset 2 on, and 4 wa"):
                await offsets(batches)
        else:
            assert await offsets(batches) == [4, 5, 6, 7]


def id_in(toy: ToyCluster) -> str:
    return uuid_to_text(toy.topics["t"].topic_id)


def make_anew(toy: ToyCluster, count: int) -> None:
    """The topic deleted, and made again under its name with that many records."""
    new_id = bytes([toy.topics["t"].topic_id[0] + 1]) + bytes(15)
    topic = toy.add_topic("t")
    topic.topic_id = new_id
    put(topic, 0, count)


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("is_begun", [True, False])
async def test_a_topic_made_anew_is_not_read_in_place_of_the_old_one(
    toy: ToyCluster, fails: bool, is_begun: bool
) -> None:
    """The new topic has the requested offsets; only its id differs."""
    put(toy.add_topic("t"), 0, 4)
    options, planned = options_of(toy, failOnDataLoss=fails), id_in(toy)
    consumer = await Shelf().take(options)
    batches = RangeReading(consumer, OffsetRange(HERE, 0, 8), options, planned).batches()
    if is_begun:
        assert offsets_of(await anext(batches)) == [0, 1, 2, 3]
    make_anew(toy, 9)

    if fails:
        with pytest.raises(RecordsLost, match="'t' was deleted and created again"):
            await offsets(batches)
    else:
        assert await offsets(batches) == []
    await consumer.close()


async def test_a_worker_that_knew_the_old_topic_reads_the_new_one(toy: ToyCluster) -> None:
    """The position that its consumer remembers must not look like a loss."""
    put(toy.add_topic("t"), 0, 1)
    shelf, options = Shelf(), options_of(toy)
    for count in (1, 5):
        consumer = await shelf.take(options)
        one = RangeReading(consumer, OffsetRange(HERE, 0, count), options, id_in(toy))
        assert await offsets(one.batches()) == list(range(count))
        await shelf.put(options, consumer)
        make_anew(toy, 5)
    await (await shelf.take(options)).close()

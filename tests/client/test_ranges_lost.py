"""Bounded reads of what is lost while it is read end with an error, and never wait for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.client.ranges import OffsetRange, range_config, read_range, read_ranges
from ottla.client.settings.config import Isolation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.builder import encode_batch
from ottla.wire.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.support.toy_broker import Seen, ToyCluster
    from tests.client.support.toy_log import ToyPartition

WHERE = ottla.TopicPartition("t", 0)


def ten_records(toy: ToyCluster) -> ToyPartition:
    """In five batches."""
    (log,) = toy.add_topic("t").partitions
    for _ in range(5):
        log.append(encode_batch([(1, None, b"x", ())] * 2))
    return log


def at_fetch(toy: ToyCluster, number: int, happen: Callable[[], object]) -> None:
    """Something happens just before that fetch is answered."""
    count = 0

    def judge(seen: Seen) -> None:
        nonlocal count
        if seen.api_key is ApiKey.FETCH:
            count += 1
            if count == number:
                happen()

    toy.judge = judge


def elect(log: ToyPartition, kept_batches: int) -> None:
    """A leader with that many batches and no others."""
    del log.batches[kept_batches:]
    log.epoch_ends[log.leader_epoch] = log.next_offset = 2 * kept_batches
    log.leader_epoch += 1


@pytest.mark.timeout(120)
async def test_a_range_whose_end_was_lost_is_told_with_what_is_left(toy: ToyCluster) -> None:
    """The reader has all that is left, and would wait for the rest for ever."""
    log = ten_records(toy)
    at_fetch(toy, 1, lambda: elect(log, 3))

    with pytest.raises(ottla.RangeLost) as failure:
        await ottla.aread_arrow("t", bootstrap_servers=toy.bootstrap)

    error = failure.value
    assert (error.topic, error.partition) == WHERE
    assert (error.offset, error.stop, error.end) == (6, 10, 6)
    assert "offset 6 was reached of a read up to offset 10, and of the log only" in str(error)
    assert "start a new read" in str(error)


@pytest.mark.timeout(120)
async def test_what_was_read_and_then_lost_is_not_read_again(toy: ToyCluster) -> None:
    """From the first record on, as a position out of range would have it, until it ended."""
    log = ten_records(toy)
    consumer = ottla.Consumer(toy.bootstrap, range_config(Isolation.READ_COMMITTED))
    async with consumer:
        found = aiter(read_ranges(consumer, [OffsetRange(WHERE, 0, 12)]))
        counts = [(await anext(found))[1].count for _ in range(5)]
        elect(log, 2)
        with pytest.raises(ottla.RangeLost, match="only what is before offset 4 is there now"):
            await anext(found)
    assert counts == [2] * 5


@pytest.mark.timeout(120)
async def test_a_range_whose_beginning_goes_by_retention_is_read_from_what_is_left(
    toy: ToyCluster,
) -> None:
    """Expiry by retention is no loss: the owner of the topic has asked for it."""
    log = ten_records(toy)

    def retain() -> None:
        del log.batches[:3]
        log.start_offset = 6

    at_fetch(toy, 1, retain)
    table = await ottla.aread_arrow("t", bootstrap_servers=toy.bootstrap)

    assert table.column("offset").to_pylist() == [6, 7, 8, 9]


@pytest.mark.timeout(120)
async def test_a_range_of_a_topic_that_is_deleted_ends(toy: ToyCluster) -> None:
    """Its brokers say that they do not know it, for as long as a call may take."""
    ten_records(toy)
    toy.judge = lambda seen: (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if seen.api_key in (ApiKey.FETCH, ApiKey.LIST_OFFSETS)
        else None
    )
    config = replace(
        range_config(Isolation.READ_COMMITTED), call_timeout_ms=50, retry_backoff=Backoff(1, 5)
    )
    async with ottla.Consumer(toy.bootstrap, config) as consumer:
        with pytest.raises(ottla.RangeLost, match="not there any more"):
            async for _ in read_ranges(consumer, [OffsetRange(WHERE, 0, 10)]):
                pass


@pytest.mark.timeout(120)
async def test_a_range_that_never_was_ends_as_well(toy: ToyCluster) -> None:
    """A worker may be given a range of another cluster."""
    ten_records(toy)
    with pytest.raises(ottla.RangeLost, match="offset 10 was reached of a read up to offset 99"):
        async for _ in read_range(OffsetRange(WHERE, 8, 99), bootstrap_servers=toy.bootstrap):
            pass

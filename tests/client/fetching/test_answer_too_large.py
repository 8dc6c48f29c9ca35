"""Batches too large for the consumer are reported; other partitions are read meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.protocol.apis import ApiKey
from ottla.protocol.records.builder import encode_batch
from ottla.wire.backoff import Backoff

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster
    from tests.client.support.toy_log import ToyPartition

LARGE, SMALL = ottla.TopicPartition("t", 1), ottla.TopicPartition("t", 0)
LIMIT_BYTES = 64 * 1024


def one_large_batch(toy: ToyCluster) -> None:
    """A small batch in each of three partitions; in one of them, a large one and a small behind."""

    def put(log: ToyPartition, value: bytes) -> None:
        log.append(encode_batch([(1, None, value, ())]))

    topic = toy.add_topic("t", 3)
    for log in topic.partitions:
        put(log, b"first")
    put(topic.partitions[1], b"." * 2 * LIMIT_BYTES)
    put(topic.partitions[1], b"last")


def consumer_of(toy: ToyCluster) -> ottla.Consumer:
    return ottla.Consumer(
        toy.bootstrap,
        offset_reset="earliest",
        response_bytes_max=LIMIT_BYTES,
        partition_bytes_max=1024,
        reconnect_backoff=Backoff(1, 5),
    )


@pytest.mark.timeout(120)
async def test_a_batch_that_is_too_large_is_told_once_and_can_be_passed(toy: ToyCluster) -> None:
    """The consumer used to reconnect and repeat the same fetch for ever, without an error."""
    one_large_batch(toy)
    found: list[bytes | None] = []
    async with consumer_of(toy) as consumer:
        consumer.assign([SMALL, LARGE, ottla.TopicPartition("t", 2)])
        while len(found) < 3:
            found += [record.value for record in await consumer.poll(60_000)]
        with pytest.raises(ottla.AnswerTooLarge) as failure:
            await consumer.poll(60_000)
        assert consumer.position(LARGE) == failure.value.offset == 1
        consumer.seek(LARGE, 2)
        while len(found) < 4:
            found += [record.value for record in await consumer.poll(60_000)]

    error = failure.value
    assert (error.topic, error.partition, error.retriable) == (*LARGE, False)
    assert "the batch at offset 1 needs an answer of 131" in str(error)
    assert "allows 65536: raise it, or seek behind the batch" in str(error)
    assert sorted(found, key=str) == [b"first"] * 3 + [b"last"]


async def test_settings_that_do_not_fit_together_cost_no_connection(toy: ToyCluster) -> None:
    """The fetch limits are below the limit of an answer, so defaults cost no connection."""
    topic = toy.add_topic("t", 4)
    for log in topic.partitions:
        for _ in range(40):
            log.append(encode_batch([(1, None, b"." * 1000, ())]))
    async with ottla.Consumer(
        toy.bootstrap, offset_reset="earliest", response_bytes_max=LIMIT_BYTES
    ) as consumer:
        consumer.assign([ottla.TopicPartition("t", number) for number in range(2)])
        await consumer.poll(60_000)

    asked = [seen.request for seen in toy.seen if seen.api_key is ApiKey.FETCH]
    limits = {part.partition_max_bytes for one in asked for part in one.topics[0].partitions}
    assert max(limits) < LIMIT_BYTES - 1_000
    assert max(one.max_bytes for one in asked) < LIMIT_BYTES - 1_000

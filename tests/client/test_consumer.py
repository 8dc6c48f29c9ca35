"""The consumer against a toy cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.consumer import Consumer
from ottla.client.process.errors import NoOffset
from ottla.client.settings.config import ConsumerConfig, Isolation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientClosed, RequestRefused, UnsupportedByBroker

if TYPE_CHECKING:
    from ottla.client.fetching.completed_fetch import ConsumerRecord
    from tests.client.support.toy_broker import Seen, ToyCluster, ToyTopic

QUICK = Backoff(1, 5)
FIRST = TopicPartition("t", 0)


def config(**changes: Any) -> ConsumerConfig:
    """Settings that make a test short."""
    settings = {"offset_reset": "earliest", "fetch_wait_ms": 20, **changes}
    return ConsumerConfig(retry_backoff=QUICK, reconnect_backoff=QUICK, **settings)


def fill(topic: ToyTopic, values: list[bytes], partition: int = 0) -> None:
    """Append each value as a separate batch; timestamps are 1000, 1001, ..."""
    log = topic.partitions[partition]
    for value in values:
        log.append(encode_batch([(1000 + log.next_offset, None, value, ())]))


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """The next records, exactly that many; a test that gets fewer runs into its time limit."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += await consumer.poll(max_records=count - len(records))
    return records


@pytest.mark.requirement("ARC-15")
async def test_every_byte_string_comes_back_as_it_was(toy: ToyCluster) -> None:
    """Keys and values are opaque: empty is not null, and nothing has to be text."""
    pairs = [(b"", b""), (None, b"\xff\xfe\x00\n"), (b"\x80", None), (None, None)]
    topic = toy.add_topic("t")
    topic.partitions[0].append(encode_batch([(1, key, value, ()) for key, value in pairs]))
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])

        records = await read(consumer, 4)

    assert [(record.key, record.value) for record in records] == pairs


async def test_a_partition_is_read_in_order_across_batches_and_polls(toy: ToyCluster) -> None:
    """Offsets have no gaps, for any sizes of batches, fetches and polls."""
    topic = toy.add_topic("t")
    for number in range(10):
        entries = [(1, None, b"%d" % (number * 7 + place), ()) for place in range(7)]
        topic.partitions[0].append(encode_batch(entries))
    async with Consumer(toy.bootstrap, config(partition_bytes_max=300)) as consumer:
        consumer.assign([FIRST])
        records: list[ConsumerRecord] = []
        while len(records) < 70:
            records += await consumer.poll(max_records=4)

        position = consumer.position(FIRST)

    assert [record.offset for record in records] == list(range(70))
    assert [record.value for record in records] == [b"%d" % number for number in range(70)]
    assert position == 70


@pytest.mark.requirement("LOG-13")
async def test_a_batch_five_times_the_limit_is_fetched_with_a_doubled_limit(
    toy: ToyCluster,
) -> None:
    """A broker that cuts the batch at the limit must not stop the consumer for ever."""
    topic = toy.add_topic("t")
    fill(topic, [b"x" * 5000])
    whole = topic.partitions[0].read

    def cut(offset: int, limit_bytes: int) -> bytes:
        return whole(offset, limit_bytes)[:limit_bytes]

    topic.partitions[0].read = cut  # type: ignore[method-assign]
    async with Consumer(toy.bootstrap, config(partition_bytes_max=1000)) as consumer:
        consumer.assign([FIRST])

        records = await read(consumer, 1)

    limits = [
        seen.request.topics[0].partitions[0].partition_max_bytes
        for seen in toy.seen
        if seen.api_key is ApiKey.FETCH
    ]
    assert records[0].value == b"x" * 5000
    assert limits[:4] == [1000, 2000, 4000, 8000]


@pytest.mark.requirement("LOG-16")
@pytest.mark.parametrize(("policy", "expected"), [("earliest", b"3"), ("latest", b"new")])
async def test_an_offset_out_of_range_is_reset_as_configured(
    toy: ToyCluster, policy: str, expected: bytes
) -> None:
    """Retention has removed the wanted record: continue at the first or after the last."""
    topic = toy.add_topic("t")
    fill(topic, [b"%d" % number for number in range(6)])
    topic.partitions[0].start_offset = 3
    async with Consumer(toy.bootstrap, config(offset_reset=policy)) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 1)
        while consumer.position(FIRST) not in (3, 6):
            await consumer.poll(10, max_records=0)
        fill(topic, [b"new"])

        records = await read(consumer, 1)

    assert records[0].value == expected


@pytest.mark.requirement("LOG-16")
@pytest.mark.parametrize("offset", [1, 99])
async def test_an_offset_out_of_range_is_an_error_without_reset(
    toy: ToyCluster, offset: int
) -> None:
    """With 'none' the application prefers an error to records that are lost silently."""
    topic = toy.add_topic("t")
    fill(topic, [b"%d" % number for number in range(6)])
    topic.partitions[0].start_offset = 3
    async with Consumer(toy.bootstrap, config(offset_reset="none")) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, offset)

        with pytest.raises(NoOffset, match=f"offset {offset}"):
            await read(consumer, 1)
        consumer.seek(FIRST, 5)

        assert (await read(consumer, 1))[0].value == b"5"


async def test_seek_drops_what_was_fetched_before_it(toy: ToyCluster) -> None:
    """Records of the place that was left must not appear after the jump."""
    topic = toy.add_topic("t")
    fill(topic, [b"%d" % number for number in range(20)])
    async with Consumer(toy.bootstrap, config(partition_bytes_max=200)) as consumer:
        consumer.assign([FIRST])
        await read(consumer, 1)

        consumer.seek(FIRST, 15)
        records = await read(consumer, 2)
        consumer.seek(FIRST, 0)
        records += await read(consumer, 1)

    assert [record.offset for record in records] == [15, 16, 0]


async def test_a_time_finds_the_first_record_at_or_after_it(toy: ToyCluster) -> None:
    """Restarting a load from a point in time needs an offset for a time."""
    topic = toy.add_topic("t")
    fill(topic, [b"%d" % number for number in range(5)])
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        consumer.seek_to_time(1003)

        records = await read(consumer, 1)
        found = await consumer.offsets_at({FIRST: 1002})
        end = await consumer.end_offsets([FIRST])

    assert records[0].offset == 3
    assert found[FIRST] == (2, 1002)
    assert end == {FIRST: 5}


async def test_a_time_after_the_last_record_is_the_end(toy: ToyCluster) -> None:
    """There is nothing to go to, and the beginning would be the worst guess."""
    topic = toy.add_topic("t")
    fill(topic, [b"old"])
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        consumer.seek_to_time(5000)
        while consumer.position(FIRST) is None:
            await consumer.poll(10)
        fill(topic, [b"new"])

        assert (await read(consumer, 1))[0].value == b"new"


async def test_a_moved_leader_is_followed(toy: ToyCluster) -> None:
    """The old leader's answer makes the consumer refresh its metadata."""
    topic = toy.add_topic("t")
    fill(topic, [b"1", b"2"])
    refused = 0

    def judge(seen: Seen) -> ErrorCode | None:
        nonlocal refused
        if seen.api_key is ApiKey.FETCH and refused < 2:
            refused += 1
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None

    toy.judge = judge
    async with Consumer(toy.bootstrap, config()) as consumer:
        before = toy.counts()[ApiKey.METADATA]
        consumer.assign([FIRST])

        assert len(await read(consumer, 2)) == 2
        assert toy.counts()[ApiKey.METADATA] >= before + 2


async def test_reading_goes_on_after_a_lost_connection(toy: ToyCluster) -> None:
    """A broker restart is no error to an application."""
    topic = toy.add_topic("t")
    fill(topic, [b"1"])
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        await read(consumer, 1)
        toy.nodes[1].drop_connections()
        fill(topic, [b"2"])

        assert (await read(consumer, 1))[0].value == b"2"


async def test_a_damaged_batch_is_an_error_and_not_passed_over(toy: ToyCluster) -> None:
    """Skipping the batch would lose records silently."""
    topic = toy.add_topic("t")
    fill(topic, [b"good", b"damaged", b"behind"])
    batches = topic.partitions[0].batches
    good = batches[1]
    batches[1] = good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        assert (await read(consumer, 1))[0].value == b"good"

        with pytest.raises(RequestRefused) as caught:
            await read(consumer, 1)

        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert consumer.position(FIRST) == 1
        batches[1] = good
        assert [record.value for record in await read(consumer, 2)] == [b"damaged", b"behind"]


async def test_what_fails_again_and_again_is_told_once(toy: ToyCluster) -> None:
    """An application that works for minutes between polls gets one error, not hundreds."""
    toy.add_topic("t")
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    toy.judge = lambda seen: code if seen.api_key is ApiKey.FETCH else None
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        while toy.counts()[ApiKey.FETCH] < 8:
            await asyncio.sleep(0.01)
        toy.judge = lambda seen: None
        while toy.counts()[ApiKey.FETCH] < 10:
            await asyncio.sleep(0.01)
        with pytest.raises(RequestRefused, match="TOPIC_AUTHORIZATION_FAILED"):
            await consumer.poll()

        assert await consumer.poll(200) == []


async def test_a_paused_partition_keeps_its_records_for_later(toy: ToyCluster) -> None:
    """Pausing must lose nothing and must not hold up the others."""
    topic = toy.add_topic("t", 2)
    second = TopicPartition("t", 1)
    fill(topic, [b"a"], 0)
    fill(topic, [b"b"], 1)
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST, second])
        consumer.pause(FIRST)
        records = await read(consumer, 1)
        assert await consumer.poll(30) == []

        consumer.resume(FIRST)
        records += await read(consumer, 1)

    assert [record.value for record in records] == [b"b", b"a"]


@pytest.mark.parametrize("uses_topic_ids", [True, False])
async def test_topics_are_named_by_id_where_the_cluster_has_ids(
    toy: ToyCluster, uses_topic_ids: bool
) -> None:
    """Fetch 13 and later know ids only; a cluster without them must be asked at 12."""
    toy.uses_topic_ids = uses_topic_ids
    topic = toy.add_topic("t")
    fill(topic, [b"1"])
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        await read(consumer, 1)

    versions = {seen.version for seen in toy.seen if seen.api_key is ApiKey.FETCH}
    assert versions == ({17} if uses_topic_ids else {12})


async def test_batches_can_be_taken_whole(toy: ToyCluster) -> None:
    """An application that decodes columns or copies batches must not pay for records."""
    topic = toy.add_topic("t")
    topic.partitions[0].append(encode_batch([(1, None, b"%d" % n, ()) for n in range(3)]))
    fill(topic, [b"3"])
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 1)
        batches = await consumer.poll_batches()

        assert [(batch.base_offset, batch.next_offset, batch.count) for batch in batches] == [
            (1, 3, 2),
            (3, 4, 1),
        ]
        assert [batch.values() for batch in batches] == [[b"1", b"2"], [b"3"]]
        assert [record.offset for record in batches[0].records()] == [1, 2]
        assert consumer.position(FIRST) == 4


async def test_read_committed_asks_for_it(toy: ToyCluster) -> None:
    """The broker cuts at the last stable offset and lists aborted transactions only if asked."""
    topic = toy.add_topic("t")
    topic.partitions[0].append(
        encode_batch(
            [(1, None, b"1", ())],
            BatchOptions(producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
    )
    settings = config(isolation=Isolation.READ_COMMITTED)
    async with Consumer(toy.bootstrap, settings) as consumer:
        consumer.assign([FIRST])
        await read(consumer, 1)

    levels = {
        seen.request.isolation_level
        for seen in toy.seen
        if seen.api_key in (ApiKey.FETCH, ApiKey.LIST_OFFSETS)
    }
    assert levels == {1}


async def test_what_went_wrong_at_a_place_that_was_left_is_not_told(toy: ToyCluster) -> None:
    """Between ``assign`` and ``seek`` there is no position. With the blocking client the event loop
    of another thread may fetch just then; the seek makes that error obsolete."""
    fill(toy.add_topic("t"), [b"x"])
    async with Consumer(toy.bootstrap, config(offset_reset="none")) as consumer:
        consumer.assign([FIRST])
        await consumer._fetcher.arrived.wait()
        consumer.seek(FIRST, 0)

        assert (await read(consumer, 1))[0].value == b"x"

        consumer.seek(FIRST, 9)
        await consumer._fetcher.arrived.wait()
        consumer.seek(FIRST, 9)
        with pytest.raises(NoOffset, match="offset 9"):
            await read(consumer, 1)


async def test_a_consumer_that_has_stopped_says_so_every_time(toy: ToyCluster) -> None:
    """An application that polls on after the first error would wait for records for ever."""
    fill(toy.add_topic("t"), [b"x"])
    toy.versions[ApiKey.FETCH] = (98, 99)
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        with pytest.raises(UnsupportedByBroker):
            await consumer.poll(5_000)
        for _ in range(2):
            with pytest.raises(ClientClosed, match=r"the consumer has stopped: .*Fetch"):
                await consumer.poll(5_000)

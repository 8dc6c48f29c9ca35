"""Sending many records at once, against a toy cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest

from ottla.client.producer import Producer
from ottla.client.records.partitioner import partition_for_key
from ottla.client.settings.config import ProducerConfig
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.columns import Columns
from ottla.protocol.records.record import Record, read_records
from ottla.wire.backoff import Backoff
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster, ToyTopic

QUICK = Backoff(1, 5)


def config(**changes: Any) -> ProducerConfig:
    """Settings that make a test short."""
    return ProducerConfig(retry_backoff=QUICK, reconnect_backoff=QUICK, linger_ms=1, **changes)


def stored(topic: ToyTopic, partition: int = 0) -> list[Record]:
    """The records in the partition's log."""
    log = topic.partitions[partition]
    return [
        record for batch in iterate_batches(log.read(0, 1 << 30)) for record in read_records(batch)
    ]


async def test_values_arrive_in_order_and_their_place_is_told(toy: ToyCluster) -> None:
    """The future of each batch returns the offsets of all of its records."""
    topic = toy.add_topic("t")
    values = [b"%d" % number for number in range(500)]
    async with Producer(toy.bootstrap, config(batch_bytes=2000)) as producer:
        delivery = await producer.send_batch("t", [*values, None], partition=0, timestamp=7)
        places = await delivery

    assert [record.value for record in stored(topic)] == [*values, None]
    assert {record.timestamp for record in stored(topic)} == {7}
    assert delivery.done
    assert delivery.record_count == sum(place.record_count for place in places) == 501
    base_offset = 0
    for place in places:
        assert (place.topic, place.partition, place.base_offset) == ("t", 0, base_offset)
        base_offset += place.record_count
    assert len(places) < 30


@pytest.mark.parametrize("key", [None, b"k"])
@pytest.mark.parametrize("kind", [bytes, bytearray])
async def test_the_list_is_the_callers_again_when_the_call_returns(
    toy: ToyCluster, kind: type, key: bytes | None
) -> None:
    """Batches leave later: a list that the caller refills must not change them."""
    topic = toy.add_topic("t")
    values = [kind(b"%05d" % number * 100) for number in range(1000)]
    expected = [bytes(value) for value in values]
    async with Producer(toy.bootstrap, config()) as producer:
        delivery = await producer.send_batch("t", values, partition=0, key=key)
        if kind is bytearray:
            values[0][:] = b"another"
        values[:] = [b"others"]
        await delivery

    assert [record.value for record in stored(topic)] == expected


async def test_a_value_of_another_kind_is_refused_by_the_call(toy: ToyCluster) -> None:
    """With or without a key; no part of the batch is sent."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        for key in (None, b"k"):
            with pytest.raises(TypeError, match="not str: encode it first"):
                await producer.send_batch("t", [b"x", "text"], key=key)  # type: ignore[list-item]

    assert stored(topic) == []


@pytest.mark.requirement("PRD-21")
async def test_one_call_sends_one_record_and_one_call_sends_many(toy: ToyCluster) -> None:
    """Both forms work, with a key for each record."""
    topic = toy.add_topic("t")
    many = Columns.of([(0, 7, b"k%d" % number, b"v%d" % number, ()) for number in range(50)])
    async with Producer(toy.bootstrap, config()) as producer:
        one = await (await producer.send("t", b"v", b"k", timestamp=7))
        (others,) = await (await producer.send_batch("t", many))

    assert (one.offset, others.base_offset, others.record_count) == (0, 1, 50)
    found = [(record.key, record.value) for record in stored(topic)]
    assert found == [(b"k", b"v"), *((b"k%d" % n, b"v%d" % n) for n in range(50))]


async def test_single_records_and_batches_keep_the_order_of_their_calls(toy: ToyCluster) -> None:
    """A batch from ``send_batch`` neither overtakes earlier records nor is overtaken."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config(batch_bytes=1000)) as producer:
        for number in range(5):
            await producer.send("t", b"single %d" % number)
            await producer.send_batch("t", [b"%d-%d" % (number, n) for n in range(100)])
            await producer.send_batch("t", [b"few %d" % number])

    expected = []
    for number in range(5):
        expected += [b"single %d" % number, *(b"%d-%d" % (number, n) for n in range(100))]
        expected.append(b"few %d" % number)
    assert [record.value for record in stored(topic)] == expected


async def test_keys_choose_partitions_as_they_do_for_single_records(toy: ToyCluster) -> None:
    """Java's murmur2, or else one key would be in two partitions."""
    topic = toy.add_topic("t", 3)
    rows = [(0, 5, b"k%d" % (number % 20), b"%d" % number, ()) for number in range(200)]
    async with Producer(toy.bootstrap, config()) as producer:
        await (await producer.send_batch("t", Columns.of(rows)))
        await (await producer.send_batch("t", [b"x", b"y"], key=b"k7"))

    seen = 0
    for partition in range(3):
        records = stored(topic, partition)
        seen += len(records)
        for record in records:
            assert record.key is not None
            assert partition_for_key(record.key, 3) == partition
        own = [int(record.value or b"") for record in records if record.timestamp == 5]
        assert own == sorted(own)
    assert seen == 202


async def test_arrow_data_is_sent_with_all_its_columns(toy: ToyCluster) -> None:
    """Times of any unit, text as well as bytes, slices that begin inside a bitmap's byte."""
    topic = toy.add_topic("t", 2)
    table = pa.table(
        {
            "value": pa.array([None, b"1", b"2", b"3", None, b"5"]),
            "key": pa.array(["a", None, "b", "c", "d", "e"], pa.large_string()),
            "timestamp": pa.array([0, 1, 2, 3, None, 5], pa.timestamp("s", "UTC")),
            "partition": pa.array([0, 1, 1, 0, 1, 1], pa.int64()),
            "headers": pa.array(
                [None, [], [{"key": "h", "value": b"1"}], None, None, None],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "left aside": [1, 2, 3, 4, 5, 6],
        }
    )
    async with Producer(toy.bootstrap, config()) as producer:
        await (await producer.send_batch("t", table.slice(1), timestamp=77))

    assert stored(topic, 0) == [Record(0, 3000, b"c", b"3", ())]
    assert stored(topic, 1) == [
        Record(0, 1000, None, b"1", ()),
        Record(1, 2000, b"b", b"2", (("h", b"1"),)),
        Record(2, 77, b"d", None, ()),
        Record(3, 5000, b"e", b"5", ()),
    ]


async def test_keys_of_a_table_choose_where_its_partitions_are_silent(toy: ToyCluster) -> None:
    """The same rows as records one by one would go to the same places."""
    topic = toy.add_topic("t", 3)
    keys = [b"k%d" % (number % 10) for number in range(100)]
    table = pa.table(
        {
            "value": pa.array(keys),
            "key": pa.array([key.decode() for key in keys]).dictionary_encode(),
            "partition": pa.array([2] + [None] * 99, pa.int32()),
        }
    )
    async with Producer(toy.bootstrap, config()) as producer:
        await (await producer.send_batch("t", table))

    expected = [2, *(partition_for_key(key, 3) for key in keys[1:])]
    for partition in range(3):
        wanted = [key for key, place in zip(keys, expected, strict=True) if place == partition]
        assert [record.value for record in stored(topic, partition)] == wanted


async def test_tables_of_other_libraries_are_taken_as_they_are(toy: ToyCluster) -> None:
    """The PyCapsule interface is how libraries hand each other Arrow data."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        await (await producer.send_batch("t", pl.DataFrame({"value": ["é", None]})))

    assert [record.value for record in stored(topic)] == ["é".encode(), None]


async def test_keys_of_other_libraries_choose_partitions(toy: ToyCluster) -> None:
    """polars hands out views, whose rows pyarrow cannot take one by one."""
    topic = toy.add_topic("t", 3)
    keys = [b"k%d" % number for number in range(9)]
    frame = pl.DataFrame(
        {
            "key": keys,
            "value": [f"é{number}" for number in range(9)],
            "headers": [[{"key": "h", "value": b"1"}]] * 9,
            "remark": ["not sent"] * 9,
        }
    )
    async with Producer(toy.bootstrap, config()) as producer:
        await (await producer.send_batch("t", frame))

    for partition in range(3):
        numbers = [n for n, key in enumerate(keys) if partition_for_key(key, 3) == partition]
        found = stored(topic, partition)
        assert [record.value for record in found] == [f"é{number}".encode() for number in numbers]
        assert {record.headers for record in found} <= {(("h", b"1"),)}


@pytest.mark.parametrize(
    ("records", "options", "sentence"),
    [
        (b"one value", {}, "there is send"),
        (["text"], {}, "encode it first"),
        (7, {}, "not int"),
        (pa.table({"price": [1]}), {}, "there are price"),
        (pa.table({"value": [1]}), {}, "not int64: encode them first"),
        (pa.table({"value": [b""]}), {"key": b"k"}, "bring their own keys"),
        (pa.table({"value": [b""], "timestamp": ["x"]}), {}, "timestamps are"),
    ],
)
async def test_what_is_no_records_is_refused_at_once(
    toy: ToyCluster, records: Any, options: dict[str, Any], sentence: str
) -> None:
    """A mistake has to come out in the call that made it."""
    toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        with pytest.raises(TypeError, match=sentence):
            await producer.send_batch("t", records, **options)


async def test_memory_stays_bounded_while_a_large_batch_is_sent(toy: ToyCluster) -> None:
    """The call waits: what the application has in hand must not be buffered a second time."""
    topic = toy.add_topic("t")
    settings = config(memory_bytes_max=20_000, batch_bytes=4_000)
    held: list[int] = []
    async with Producer(toy.bootstrap, settings) as producer:
        sending = asyncio.ensure_future(producer.send_batch("t", [b"x" * 100] * 3_000))
        while not sending.done():
            assert producer._sender is not None
            held.append(producer._sender.accumulator.held_bytes)
            await asyncio.sleep(0)
        await (await sending)

    assert len(stored(topic)) == 3_000
    assert 10_000 < max(held) <= 20_000


async def test_a_record_that_no_request_may_carry_is_refused(toy: ToyCluster) -> None:
    """With its size and the limit, and what came before it in the call is sent."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config(request_bytes_max=1000)) as producer:
        with pytest.raises(RequestRefused, match="exceeds request_bytes_max"):
            await producer.send_batch("t", [b"a" * 600, b"b" * 2000])
        await producer.flush()

    assert len(stored(topic)) <= 1


async def test_nothing_is_a_batch_too(toy: ToyCluster) -> None:
    """Programs that send what they have found need no special case."""
    toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        delivery = await producer.send_batch("t", [])

        assert delivery.done
        assert await delivery == []

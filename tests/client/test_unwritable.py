"""A record that cannot be written fails alone, and sent records do not change: one bad record must
not end the producer of all others."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ottla.client.process.errors import AbortRequired
from ottla.client.producer import Producer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.columns import BytesColumn, Columns
from ottla.wire.errors import RequestRefused
from tests.client.sending.test_bulk import config, stored
from tests.client.support.transactional import producer_of

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster

INT64_MAX = 2**63 - 1
NAMED = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def far_apart() -> Columns:
    """Two records that no batch can hold: its timestamps are differences of 64 bits."""
    value = bytes(40_000)
    return Columns.of([(0, -1, None, value, ()), (1, INT64_MAX, None, value, ())])


def beyond(size_bytes: int) -> Columns:
    """A record with a value that claims to be that large and has a single byte."""
    value = BytesColumn(struct.pack("<2i", 0, size_bytes), b"x")
    return Columns(1, bytes(8), bytes(8), BytesColumn.nulls(1), value)


async def test_columns_that_cannot_be_written_fail_alone(toy: ToyCluster) -> None:
    """They are checked when their batch leaves; others of the partition are sent in order."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        before = await producer.send("t", b"before", partition=0)
        bad = [
            await producer.send_batch("t", columns, partition=0)
            for columns in (far_apart(), beyond(100_000))
        ]
        after = await producer.send("t", b"after", partition=0)
        for delivery in bad:
            with pytest.raises(RequestRefused, match="cannot be written") as caught:
                await delivery
            assert caught.value.code is ErrorCode.INVALID_RECORD
        assert ((await before).offset, (await after).offset) == (0, 1)
        assert producer._sender is not None
        assert producer._sender.accumulator.held_bytes == 0

    assert [record.value for record in stored(topic)] == [b"before", b"after"]


async def test_a_few_columns_that_are_none_leave_no_batch_behind(toy: ToyCluster) -> None:
    """Columns are split to share a batch: a batch without records must not leave."""
    toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        with pytest.raises(ValueError, match="lies outside its data"):
            await producer.send_batch("t", beyond(100), partition=0)

        assert producer._sender is not None
        assert producer._sender.accumulator.held_bytes == 0
        assert (await (await producer.send("t", b"x"))).offset == 0


async def test_a_transaction_is_not_committed_without_them(toy: ToyCluster) -> None:
    """A transaction with a failed record must be aborted as a whole."""
    toy.add_topic("t")
    async with producer_of(toy) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        delivery = await producer.send_batch("t", far_apart(), partition=0)
        with pytest.raises(AbortRequired):
            await producer.commit_transaction()
        with pytest.raises(RequestRefused, match="cannot be written"):
            await delivery
        await producer.abort_transaction()

        async with producer.transaction():
            await producer.send("t", b"x")


async def test_the_key_of_many_is_checked_and_copied(toy: ToyCluster) -> None:
    """With a given partition the key was not checked before the batch left."""
    topic = toy.add_topic("t")
    wrong: Any = "k"
    key = bytearray(b"key")
    async with Producer(toy.bootstrap, config()) as producer:
        with pytest.raises(TypeError, match="not str: encode it first"):
            await producer.send_batch("t", [b"x"], partition=0, key=wrong)
        delivery = await producer.send_batch("t", [b"x"], partition=0, key=key)  # type: ignore[arg-type]
        key[:] = b"yek"
        await delivery

    assert [record.key for record in stored(topic)] == [b"key"]


async def test_a_header_is_the_callers_again_when_the_call_returns(toy: ToyCluster) -> None:
    """A pair may be a list, which may be used for the next record."""
    topic = toy.add_topic("t")
    header: Any = ["name", b"1"]
    async with Producer(toy.bootstrap, config()) as producer:
        delivery = await producer.send("t", b"x", headers=(header,))
        header[1] = 2
        await delivery

    assert [record.headers for record in stored(topic)] == [(("name", b"1"),)]


async def test_a_header_goes_on_as_it_was_read(toy: ToyCluster) -> None:
    """Other producers write header names that are not UTF-8; an application that forwards records,
    say to a dead letter topic, has them with surrogate escapes."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        await (await producer.send("t", b"x", headers=(("a\udcff", b"1"),)))
        with pytest.raises(TypeError, match="headers are pairs of str and bytes"):
            await producer.send("t", b"x", headers=(("a\ud83d", b"1"),))

    assert [record.headers for record in stored(topic)] == [(("a\udcff", b"1"),)]


async def test_names_of_headers_in_arrow_may_be_bytes(toy: ToyCluster) -> None:
    """Bytes used to come out as the text of a Python literal."""
    topic = toy.add_topic("t")
    headers = pa.array([[{"key": b"a\xff", "value": b"1"}]], NAMED)
    async with Producer(toy.bootstrap, config()) as producer:
        await (await producer.send_batch("t", pa.table({"value": [b"x"], "headers": headers})))

    assert [record.headers for record in stored(topic)] == [(("a\udcff", b"1"),)]


@pytest.mark.parametrize(
    "headers",
    [
        pa.array([[{"key": None, "value": b"1"}]], NAMED),
        pa.array([[{"key": b"name"}]]),
        pa.array([["ab"]]),
        pa.array([[(1, b"x")]], pa.map_(pa.int32(), pa.binary())),
    ],
)
async def test_headers_in_arrow_that_are_none_are_refused(
    toy: ToyCluster, headers: pa.Array
) -> None:
    """A None used to become the name "None", and a text of two letters a pair."""
    toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        with pytest.raises(TypeError, match="headers are structs of key and value"):
            await producer.send_batch("t", pa.table({"value": [b"x"], "headers": headers}))


async def test_times_in_arrow_do_not_wrap_around(toy: ToyCluster) -> None:
    """Seconds may be more than fit as milliseconds; finer times lose what is finer."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        for unit, time in (("s", 5), ("us", 5_999), ("ns", 5_999_999)):
            times = pa.array([time], pa.timestamp(unit))
            await (await producer.send_batch("t", pa.table({"value": [b"x"], "timestamp": times})))
        times = pa.array([2**62], pa.timestamp("s"))
        with pytest.raises(ValueError, match="out of bounds"):
            await producer.send_batch("t", pa.table({"value": [b"x"], "timestamp": times}))

    assert [record.timestamp for record in stored(topic)] == [5_000, 5, 5]


async def test_any_two_times_fit_one_batch(toy: ToyCluster) -> None:
    """The same holds for a record without a timestamp beside one with the largest timestamp."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        await producer.send("t", b"a", timestamp=-1)
        await (await producer.send("t", b"b", timestamp=INT64_MAX - 1))
        with pytest.raises(ValueError, match=f"{INT64_MAX - 1} at most"):
            await producer.send("t", b"c", timestamp=INT64_MAX)

    assert [record.timestamp for record in stored(topic)] == [-1, INT64_MAX - 1]

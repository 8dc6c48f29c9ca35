"""Batches with broken records: they are refused before they are acknowledged, and not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.batch import parse_batch, refresh_crc
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import CODECS, Codec
from ottla.protocol.records.record import read_records
from ottla.protocol.records.varint import encode_varint
from tests.broker.support.requests import TOPIC, create, fetched, produce, produced
from tests.protocol.records.broken import (
    BROKEN,
    NOW,
    SPOILED,
    batch_around,
    record,
    sized,
    spoiled,
)
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.raw_client import RawClient

GOOD = batch_around(record())
# Handed to a worker, and on the event loop.
SIZES = {"small": b"", "large": bytes(range(256)) * 400}


def table(codec: Codec) -> dict[str, tuple[bytes, bool]]:
    """Everything that is wrong with records of one codec, and whether the answer says what."""
    broken = {
        name: (batch_around(payload, count, codec), False)
        for name, (count, payload) in BROKEN.items()
    }
    if codec is not Codec.NONE:
        for how in SPOILED:
            broken[how] = (spoiled(codec, how), True)
    return broken


async def both_ways(client: RawClient, records: bytes, **more: Any) -> list[Any]:
    """Two partitions take the general path, one partition the short one; the first request of a
    version always takes the general path."""
    data = [PartitionProduceData(index=index, records=records) for index in (0, 1)]
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
    )
    general = (await client.call(9, request)).responses[0].partition_responses
    return [*general, await produced(client, records, **more)]


async def ends(client: RawClient) -> list[int]:
    """Where the logs of both partitions end."""
    return [(await fetched(client, 0)).high_watermark]


@pytest.mark.parametrize("codec", CODECS)
async def test_broken_records_are_refused_and_nothing_is_stored(
    client: RawClient, codec: Codec
) -> None:
    """On both paths of a produce request; the connection stays open."""
    await create(client, partitions=2)
    await both_ways(client, GOOD)
    end = await ends(client)
    wrong = []
    for name, (records, has_message) in table(codec).items():
        for answer in await both_ways(client, records):
            told = (answer.error_code, answer.base_offset, answer.record_errors)
            if told != (ErrorCode.INVALID_RECORD, -1, []) or has_message != bool(
                answer.error_message
            ):
                wrong.append((name, told))

    assert wrong == []
    assert await ends(client) == end == [2]
    assert (await produced(client, GOOD)).base_offset == 2


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", ["fewer records than counted", "bytes behind the records"])
async def test_broken_records_that_a_worker_looks_at_are_refused(
    client: RawClient, codec: Codec, name: str
) -> None:
    """Too large to be decompressed on the event loop: noise does not compress."""
    noise = bytes(index * index * 7919 >> 5 & 0xFF for index in range(150_000))
    first = sized(b"\x00\x00\x00" + sized(b"k") + sized(noise) + b"\x00")
    count, payload = BROKEN[name]
    rest = payload.replace(record(0), record(1))
    await create(client, partitions=2)

    broken = await both_ways(client, batch_around(first + rest, count + 1, codec))
    good = await both_ways(client, batch_around(first + record(1), 2, codec))

    assert [answer.error_code for answer in broken] == [ErrorCode.INVALID_RECORD] * 3
    assert [answer.base_offset for answer in good] == [0, 0, 2]


@pytest.mark.parametrize("codec", CODECS)
async def test_a_refused_batch_without_acks_closes_the_connection(codec: Codec) -> None:
    """It is the only way left to tell the producer."""
    async with running_broker() as running:
        async with running.connect() as client:
            await create(client)
        for name, (records, _has_message) in table(codec).items():
            async with running.connect() as client:
                client.send(9, produce(records, acks=0))
                with pytest.raises(EOFError):
                    pytest.fail(f"{name}: {await client.frame()!r}")
        async with running.connect() as client:
            assert (await fetched(client, 0)).high_watermark == 0


async def test_a_topic_may_have_headers_checked_alone(client: RawClient) -> None:
    """What was accepted before records were looked at, for those who know their producers."""
    await create(client, ottla_validate_records="header")

    answers = [await produced(client, batch_around(b"\xff" * 20, 3)) for _ in range(2)]

    assert [answer.base_offset for answer in answers] == [0, 3]
    assert (await produced(client, b"")).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("value", ["header", "full"])
async def test_the_broker_says_what_is_checked_where_a_topic_does_not(value: str) -> None:
    """One switch for the whole broker."""
    async with (
        running_broker({"ottla.validate.records": value}) as running,
        running.connect() as client,
    ):
        await create(client)
        answer = await produced(client, batch_around(b"\xff" * 20, 3))

        expected = ErrorCode.NONE if value == "header" else ErrorCode.INVALID_RECORD
        assert answer.error_code == expected


def _amended(made: Callable[[bytearray], object], codec: Codec) -> bytes:
    records = bytearray(batch_around(record(0) + record(1, delta=encode_varint(40)), 2, codec))
    made(records)
    refresh_crc(records, 0)
    return bytes(records)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(
    "amend",
    [
        pytest.param(lambda made: None, id="a largest timestamp that is too low"),
        pytest.param(
            lambda made: made.__setitem__(slice(35, 43), (NOW + 9_000).to_bytes(8)),
            id="a largest timestamp that is too high",
        ),
        pytest.param(
            lambda made: made.__setitem__(22, made[22] | 0x08), id="times that are append times"
        ),
        pytest.param(lambda made: made.__setitem__(22, made[22] | 0x40), id="a delete horizon"),
    ],
)
async def test_headers_that_say_what_only_brokers_know_are_put_right(
    client: RawClient, amend: Callable[[bytearray], object], codec: Codec
) -> None:
    """Kafka accepts these. A time index would be wrong with them, and a record's time."""
    await create(client)

    answers = [await produced(client, _amended(amend, codec)) for _ in range(2)]
    stored = parse_batch(bytes((await fetched(client, 0)).records))

    assert [answer.base_offset for answer in answers] == [0, 2]
    assert stored.attributes == codec
    assert stored.max_timestamp == NOW + 40
    assert [one.timestamp for one in read_records(stored)] == [NOW, NOW + 40]


async def test_what_follows_the_batch_is_left_out(client: RawClient) -> None:
    """Kafka trims what is no batch."""
    await create(client)

    answers = [await produced(client, GOOD + b"abc") for _ in range(2)]
    got = bytes((await fetched(client, 0)).records)

    assert [answer.base_offset for answer in answers] == [0, 1]
    assert len(got) == 2 * len(GOOD)


async def test_each_record_with_a_wrong_time_is_named(client: RawClient) -> None:
    """KIP-467: the producer fails these, and says of the others that they were in the way."""
    await create(client, message_timestamp_before_max_ms="1000")
    entries = [(time, b"k", b"v", ()) for time in (NOW, -1, 5)]

    for version in (7, 9):
        answer = await produced(client, encode_batch(entries), version)
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        if version == 9:
            assert [error.batch_index for error in answer.record_errors] == [0, 2]
            assert "record 0" in answer.error_message
            assert "before" in answer.record_errors[0].batch_index_error_message


async def test_append_times_are_the_brokers_to_set(client: RawClient) -> None:
    """On a topic that has them."""
    await create(client, message_timestamp_type="LogAppendTime")
    marked = _amended(lambda made: made.__setitem__(22, 0x08), Codec.NONE)

    answer = await produced(client, marked)

    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0, 1]


async def test_a_batch_that_a_worker_checks_is_not_overtaken() -> None:
    """The next request of the connection has the next sequence numbers: out of order, it would be
    refused."""
    noise = bytes(index * index * 7919 >> 5 & 0xFF for index in range(200_000))
    async with running_broker() as running, running.connect() as client:
        await create(client)
        sent = []
        for sequence in range(12):
            options = BatchOptions(
                codec=Codec.GZIP if sequence % 2 else Codec.NONE,
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
            )
            records = encode_batch([(NOW, None, noise, ())], options)
            sent.append(client.send(9, produce(records)))
        offsets = []
        for _ in sent:
            answer = await client.answer(9, ProduceRequest())
            offsets.append(answer.responses[0].partition_responses[0].base_offset)

        assert offsets == list(range(12))

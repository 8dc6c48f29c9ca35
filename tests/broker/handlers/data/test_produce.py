"""Produce: what is appended, what is refused with which code, what is seen as a repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import iterate_batches, parse_batch, refresh_crc
from ottla.protocol.records.builder import encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import read_records
from tests.broker.support.requests import NOW, batch, create, fetched, produce, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient


@pytest.mark.requirement("ARC-18", "FMT-21", "FMT-36")
async def test_offsets_are_assigned_in_order(client: RawClient) -> None:
    """The broker writes base offset and leader epoch; every other byte is the producer's."""
    await create(client)
    sent = [batch(b"a", b"b"), batch(b"c")]

    answers = [await produced(client, one) for one in sent]
    got = bytes((await fetched(client, 0)).records)

    assert [answer.base_offset for answer in answers] == [0, 2]
    first, second = iterate_batches(got)
    assert [first.base_offset, second.base_offset] == [0, 2]
    assert bytes(first.view)[16:] == sent[0][16:]
    assert bytes(second.view)[16:] == sent[1][16:]


@pytest.mark.requirement("FMT-37")
@pytest.mark.parametrize("codec", [one for one in Codec if one is not Codec.NONE])
async def test_what_is_compressed_is_stored_and_served_as_it_came(codec: Codec) -> None:
    """Batches are compressed from end to end. That nothing is decompressed to serve them is shown
    by bytes that no decompressor would take, which a topic may let in that checks only headers."""
    records = bytearray(batch(b"value" * 100, codec=codec))
    records[61:] = bytes(byte ^ 0x5A for byte in records[61:])
    refresh_crc(records, 0)
    async with running_broker() as running, running.connect() as client:
        await create(client, ottla_validate_records="header")
        answer = await produced(client, bytes(records))
        got = bytes((await fetched(client, 0)).records)
        stored = running.broker.ports.disk.open("/data/t-0/00000000000000000000.log")

        assert answer.error_code == ErrorCode.NONE
        assert got[16:] == bytes(records)[16:]
        assert stored.pread(stored.size_bytes, 0) == got
    with pytest.raises(KafkaError):
        list(read_records(parse_batch(got)))


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_appends(client: RawClient, version: int) -> None:
    """Old clients send old versions for ever."""
    await create(client)

    answers = [await produced(client, batch(b"x"), version) for _ in range(2)]

    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 2
    assert [answer.base_offset for answer in answers] == [0, 1]
    assert answers[0].log_append_time_ms == answers[1].log_append_time_ms == -1


def damaged() -> bytes:
    """A batch with one flipped bit in its payload."""
    spoiled = bytearray(batch(b"value"))
    spoiled[-2] ^= 1
    return bytes(spoiled)


def changed(position: int, content: bytes) -> bytes:
    """A field of the header changed, and the checksum made right again."""
    made = bytearray(batch(b"value"))
    made[position : position + len(content)] = content
    refresh_crc(made, 0)
    return bytes(made)


@pytest.mark.requirement("LOG-35")
@pytest.mark.parametrize(
    ("records", "version", "code"),
    [
        pytest.param(damaged(), 9, ErrorCode.CORRUPT_MESSAGE, id="a flipped bit"),
        pytest.param(b"", 9, ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(batch(b"a") + batch(b"b"), 9, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(batch(b"a")[:-1], 9, ErrorCode.INVALID_RECORD, id="one byte short"),
        pytest.param(changed(0, (5).to_bytes(8)), 9, ErrorCode.INVALID_RECORD, id="a base offset"),
        pytest.param(changed(57, (2).to_bytes(4)), 9, ErrorCode.INVALID_RECORD, id="a wrong count"),
        pytest.param(
            changed(21, (0x20).to_bytes(2)), 9, ErrorCode.INVALID_RECORD, id="a control batch"
        ),
        pytest.param(
            batch(b"x", codec=Codec.ZSTD),
            6,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            id="zstd in an old version",
        ),
    ],
)
async def test_bad_records_are_refused_and_nothing_is_written(
    client: RawClient, records: bytes, version: int, code: ErrorCode
) -> None:
    """Each of these would stop every consumer that met it."""
    await create(client)

    # The first request of a version is served at length, the later ones try the short way first.
    answers = [await produced(client, records, version) for _ in range(2)]

    for answer in answers:
        assert (answer.error_code, answer.base_offset) == (code, -1)
    assert (await fetched(client, 0)).high_watermark == 0


@pytest.mark.requirement("NET-32")
async def test_a_batch_above_the_limit_is_refused(client: RawClient) -> None:
    """max.message.bytes is the topic's, and one byte decides."""
    limit = len(batch(b"x" * 1000))
    await create(client, max_message_bytes=str(limit))

    assert (await produced(client, batch(b"x" * 1000))).error_code == ErrorCode.NONE
    too_large = await produced(client, batch(b"x" * 1001))
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await fetched(client, 0)).high_watermark == 1


async def test_unknown_topics_and_partitions_are_said(client: RawClient) -> None:
    """Retriable with fresh metadata: the topic may be about to be created."""
    await create(client)

    for more in ({"topic": "other"}, {"partition": 7}):
        answer = await produced(client, batch(b"x"), **more)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_acks_other_than_the_three_are_refused(client: RawClient) -> None:
    """The broker cannot promise exactly two acknowledgements."""
    await create(client)

    answer = await produced(client, batch(b"x"), acks=2)

    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert (await fetched(client, 0)).high_watermark == 0


async def test_acks_zero_has_no_answer(client: RawClient) -> None:
    """The next answer on the connection belongs to the next request."""
    await create(client)

    client.send(9, produce(batch(b"x"), acks=0))

    assert (await produced(client, batch(b"y"))).base_offset == 1


async def test_a_failed_acks_zero_closes_the_connection(client: RawClient) -> None:
    """It is the only way left to tell the producer."""
    client.send(9, produce(batch(b"x"), acks=0, topic="missing"))

    with pytest.raises(EOFError):
        await client.frame()


def numbered(sequence: int, producer_epoch: int = 0, count: int = 1) -> bytes:
    """A batch of an idempotent producer."""
    values = [b"x"] * count
    return batch(*values, producer_id=7, producer_epoch=producer_epoch, base_sequence=sequence)


@pytest.mark.requirement("IDM-04", "IDM-07", "IDM-08")
async def test_a_repeated_batch_is_answered_with_its_first_offset(client: RawClient) -> None:
    """Up to five batches back: as many as a client has in flight (KIP-185)."""
    await create(client)
    offsets = [(await produced(client, numbered(n))).base_offset for n in range(5)]

    again = [(await produced(client, numbered(n))).base_offset for n in range(5)]

    assert offsets == again == [0, 1, 2, 3, 4]
    assert (await fetched(client, 0)).high_watermark == 5


@pytest.mark.requirement("IDM-05", "IDM-06")
async def test_a_gap_in_the_sequence_is_refused(client: RawClient) -> None:
    """What is missing is in flight or lost; either way this one must wait."""
    await create(client)
    await produced(client, numbered(0))

    gap = await produced(client, numbered(2))

    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await produced(client, numbered(1))).base_offset == 1
    assert (await produced(client, numbered(2))).base_offset == 2


async def test_an_old_producer_epoch_is_fenced(client: RawClient) -> None:
    """A newer incarnation has written: the older one is a ghost."""
    await create(client)
    await produced(client, numbered(0, producer_epoch=1))

    old = await produced(client, numbered(0, producer_epoch=0))

    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_compacted_topic_wants_keys(client: RawClient) -> None:
    """Compaction could not tell such a record from any other (hazard S-27)."""
    await create(client, cleanup_policy="compact")
    records = encode_batch([(NOW, b"k", b"v", ()), (NOW, None, b"v", ())])

    answer = await produced(client, records)

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert (await fetched(client, 0)).high_watermark == 0


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
async def test_the_topic_may_choose_the_codec(client: RawClient, codec: str) -> None:
    """compression.type other than "producer" rewrites the batch."""
    await create(client, compression_type=codec)

    await produced(client, batch(b"a" * 500, b"b" * 500, codec=Codec.LZ4))
    (stored,) = iterate_batches(bytes((await fetched(client, 0)).records))

    expected = Codec.NONE if codec == "uncompressed" else Codec[codec.upper()]
    assert stored.codec is expected
    assert [bytes(r.value or b"") for r in read_records(stored)] == [b"a" * 500, b"b" * 500]


async def test_append_time_replaces_the_producers(client: RawClient) -> None:
    """message.timestamp.type=LogAppendTime: the broker's clock, told in the answer."""
    await create(client, message_timestamp_type="LogAppendTime")

    answer = await produced(client, batch(b"x"))
    (stored,) = iterate_batches(bytes((await fetched(client, 0)).records))

    assert answer.log_append_time_ms > NOW
    assert {record.timestamp for record in read_records(stored)} == {answer.log_append_time_ms}


@pytest.mark.parametrize("setting", [{"flush_messages": "1"}, {"ottla_flush_before_ack": "true"}])
async def test_a_flush_is_waited_for(setting: dict[str, Any]) -> None:
    """So nothing is acknowledged that a power cut could take."""
    async with running_broker() as running, running.connect() as client:
        await create(client, **setting)
        answer: Any = await produced(client, batch(b"x"), acks=1)

        partition = running.broker.partitions.find("t", 0)

        assert answer.base_offset == 0
        assert partition is not None
        assert partition.log.recovery_point == 1


@pytest.mark.parametrize("version", range(7, 12))
async def test_produced_the_short_way_or_the_long_way_the_answer_is_the_same(
    client: RawClient, version: int
) -> None:
    """The short path must be indistinguishable to clients."""
    await create(client, "short")
    await create(client, "other")
    frames = []
    for topic, client_id in (("other", None), ("short", "raw"), ("other", None), ("short", "raw")):
        client.send(version, produce(batch(b"a", b"b"), topic=topic), client_id)
        frames.append((await client.frame())[4:].replace(b"other", b"short"))

    assert frames[0] == frames[1]
    assert frames[2] == frames[3]

"""Old producers are stored as batches and old consumers read them back, whatever is stored."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.partitions.conversions import ANSWER_ENOUGH_BYTES
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.old_messages import iterate_entries, read_any
from ottla.protocol.records.record import read_records
from tests.broker.support import transactions
from tests.broker.support.requests import NOW, TOPIC, batch, create, fetch, fetched, produced
from tests.broker.support.requests import produce as produce_request
from tests.broker.support.transactions import StandIn
from tests.protocol.records.old_bytes import LOG_APPEND_TIME, Made, entry, message_set, wrapper
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

records_of_kafka_python: Any = importlib.import_module("kafka.record.memory_records")
MADE = [Made(n, NOW + n, b"k%d" % n, b"v%d" % n) for n in range(4)]
old_codecs = pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])


def _set(magic: int, codec: Codec) -> bytes:
    return wrapper(magic, MADE, codec) if codec else message_set(magic, MADE)


def _of_version(version: int, request: FetchRequest) -> FetchRequest:
    """Before version 3 there is no limit for the whole answer."""
    if version < 3:
        request.max_bytes = 2**31 - 1
    return request


async def _stored(client: RawClient, offset: int = 0) -> list[Any]:
    data = bytes((await fetched(client, offset)).records)
    assert all(each.magic == 2 for each in iterate_entries(data))
    return [record for one in iterate_batches(data) for record in read_records(one)]


@old_codecs
@pytest.mark.parametrize("version", range(3))
async def test_old_sets_are_stored_as_batches_with_offsets_of_their_own(
    client: RawClient, version: int, codec: Codec
) -> None:
    """Newer consumers read them at once, in the codec of the producer."""
    await create(client)
    magic = 1 if version == 2 else 0
    await produced(client, batch(b"first"))

    answer = await produced(client, _set(magic, codec), version)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
    (_, *rest) = await _stored(client)
    assert [(one.offset, one.key, one.value) for one in rest] == [
        (1 + n, one.key, one.value) for n, one in enumerate(MADE)
    ]
    assert [one.timestamp for one in rest] == [one.timestamp if magic else -1 for one in MADE]
    data = bytes((await fetched(client, 1)).records)
    assert [one.codec for one in iterate_batches(data)][-1] is codec


@pytest.mark.requirement("FMT-11")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_a_topic_with_append_times_stamps_what_old_producers_send(
    magic: int, codec: Codec
) -> None:
    """By the topic's setting or the broker's: type bit and time are the broker's."""
    settings = {"log.message.timestamp.type": "LogAppendTime"} if magic else {}
    async with running_broker(settings) as running, running.connect() as client:
        configs: Any = {} if magic else {"message_timestamp_type": "LogAppendTime"}
        await create(client, **configs)
        answer = await produced(client, _set(magic, codec), 2)

        assert answer.error_code == ErrorCode.NONE
        assert answer.log_append_time_ms > NOW
        stored = await _stored(client)
        assert {one.timestamp for one in stored} == {answer.log_append_time_ms}
        data = bytes((await fetched(client, 0, 2)).records)
        assert {one.timestamp for one in read_any(data)} == {answer.log_append_time_ms}
        assert all(int(one.timestamp_type) == 1 for one in iterate_entries(data))


async def test_refused_sets_store_nothing(client: RawClient) -> None:
    """Each with Kafka's error, and the next one gets the next offset."""
    await create(client)
    torn = entry(0, MADE[0])[:-1]
    spoiled = bytearray(entry(1, MADE[0]))
    spoiled[-1] ^= 1
    both = _set(1, Codec.GZIP) * 2
    codes = [
        (await produced(client, bytes(data), 2)).error_code
        for data in (spoiled, entry(1, MADE[0], LOG_APPEND_TIME), entry(0, MADE[0], 0x10), both)
    ]
    nothing = await produced(client, torn, 1)

    assert codes == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
    ]
    assert (nothing.error_code, nothing.base_offset) == (ErrorCode.NONE, -1)
    assert (await produced(client, _set(0, Codec.NONE), 0)).base_offset == 0


async def test_limits_and_keys_hold_for_old_producers(client: RawClient) -> None:
    """A set is judged as the batch that it becomes."""
    await create(client, cleanup_policy="compact")
    await create(client, "small", max_message_bytes="100")
    keyless = message_set(0, [Made(0, 0, None, b"v")])

    assert (await produced(client, keyless, 1)).error_code == ErrorCode.INVALID_RECORD
    large = message_set(0, [Made(0, 0, b"k", bytes(200))])
    answer = await produced(client, large, 1, topic="small")
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_large_set_is_converted_in_a_worker_and_in_order(client: RawClient) -> None:
    """Requests behind it on the same connection are stored behind it."""
    await create(client)
    many = [Made(n, NOW, b"k", b"x" * 100) for n in range(2_000)]
    client.send(1, produce_request(message_set(0, many)))
    client.send(1, produce_request(_set(0, Codec.NONE)))
    first = await client.answer(1, produce_request(b""))
    second = await client.answer(1, produce_request(b""))

    offsets = [one.responses[0].partition_responses[0].base_offset for one in (first, second)]
    assert offsets == [0, 2_000]


async def test_without_acknowledgement_nothing_is_answered_and_an_error_closes() -> None:
    """The only way in which such a producer learns of it."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        client.send(0, produce_request(_set(0, Codec.NONE), acks=0))
        assert (await produced(client, _set(0, Codec.NONE), 0)).base_offset == len(MADE)
        client.send(0, produce_request(entry(0, MADE[0], 0x10), acks=0))
        with pytest.raises(EOFError):
            await client.frame()


@old_codecs
@pytest.mark.parametrize("version", range(4))
async def test_old_consumers_read_batches(client: RawClient, version: int, codec: Codec) -> None:
    """In the format of their version, with kafka-python's reader of that time."""
    await create(client)
    await produced(client, batch(b"before"))
    entries = [(one.timestamp, one.key, one.value, (("h", b"x"),)) for one in MADE]
    await produced(client, encode_batch(entries, BatchOptions(codec=codec)))

    answer = await fetched(client, 1, version)

    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 5)
    magic = 0 if version < 2 else 1
    assert {each.magic for each in iterate_entries(bytes(answer.records))} == {magic}
    found = []
    if codec is Codec.LZ4 and magic == 0:
        found = [(one.offset, one.key, one.value) for one in read_any(bytes(answer.records))]
    else:
        theirs = records_of_kafka_python.MemoryRecords(bytes(answer.records))
        while theirs.has_next():
            found += [(one.offset, one.key, one.value) for one in theirs.next_batch()]
    assert found == [(1 + n, one.key, one.value) for n, one in enumerate(MADE)]


@pytest.mark.requirement("NET-31")
async def test_the_last_message_is_cut_before_version_3(client: RawClient) -> None:
    """Consumers of that time learn from the torn message that they have to ask for more."""
    await create(client)
    await produced(client, batch(b"x" * 1_000, b"y" * 1_000))

    for version in (0, 1, 2):
        cut = bytes((await fetched(client, 0, version, partition_bytes=500)).records)
        assert len(cut) == 500
        assert int.from_bytes(cut[8:12]) > 500
        more = bytes((await fetched(client, 0, version, partition_bytes=1_500)).records)
        assert len(more) == 1_500
        records = records_of_kafka_python.MemoryRecords(more)
        assert [one.value[:1] for one in records.next_batch()] == [b"x"]
        assert not records.has_next()
    whole = bytes((await fetched(client, 0, 3, partition_bytes=500)).records)
    assert [one.value for one in read_any(whole)] == [b"x" * 1_000]


@pytest.mark.parametrize("version", [2, 3])
async def test_a_fetch_of_everything_is_answered_in_shares(client: RawClient, version: int) -> None:
    """The event loop copies an answer at once. A message that is larger than a share is whole."""
    await create(client, max_message_bytes=str(4 * ANSWER_ENOUGH_BYTES))
    half = bytes(ANSWER_ENOUGH_BYTES // 2 + 1)
    for values in ([half], [half], [half], [bytes(2 * ANSWER_ENOUGH_BYTES)]):
        await produced(client, batch(*values))
    found: list[list[int]] = []
    offset = 0
    while offset < 4:
        request = _of_version(version, fetch(offset, max_bytes=1 << 30, partition_bytes=1 << 30))
        (part,) = (await client.call(version, request)).responses[0].partitions
        found.append([one.offset for one in read_any(bytes(part.records))])
        offset = found[-1][-1] + 1

    assert found == [[0, 1], [2, 3]]


@pytest.mark.parametrize("version", [1, 3])
async def test_every_partition_gets_its_cut_or_its_share(client: RawClient, version: int) -> None:
    """Before version 3 each is served up to its own limit, also behind a large message."""
    await create(client, partitions=3)
    for index in range(3):
        await produced(client, batch(bytes(5_000)), partition=index)
    request = _of_version(version, fetch(0, max_bytes=6_000))
    request.topics = [
        FetchTopic(
            topic=TOPIC,
            partitions=[
                FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=2_000)
                for index in range(3)
            ],
        )
    ]

    parts = (await client.call(version, request)).responses[0].partitions

    sizes = [len(bytes(part.records)) for part in parts]
    if version < 3:
        assert sizes == [2_000] * 3
    else:
        assert sizes[0] > 5_000
        assert sum(sizes) < 15_000


@pytest.mark.parametrize("version", [0, 3])
async def test_markers_are_passed_while_waiting(version: int) -> None:
    """A consumer at the end of a transaction must not spin: it waits for what comes behind.

    What was aborted it reads, as in Kafka: these versions have no isolation."""
    async with running_broker(transactions.SMALL) as running, running.connect() as client:
        await create(client)
        await transactions.coordinated(client)
        StandIn(running.broker)
        answer = await transactions.produced(client, transactions.in_transaction(value=b"aborted"))
        assert answer.error_code == ErrorCode.NONE
        await client.call(1, transactions.marker_request(commit=False))
        seen = bytes((await fetched(client, 0, version)).records)
        assert [one.value for one in read_any(seen)] == [b"aborted"]
        waiting = running.broker.parts.shared.waiting

        client.send(version, _of_version(version, fetch(1, max_wait_ms=60_000)))
        while not waiting.count:
            await asyncio.sleep(0.01)
        async with running.connect() as other:
            await produced(other, batch(b"behind"))
        answer = await client.answer(version, fetch(1))

        data = bytes(answer.responses[0].partitions[0].records)
        assert [(one.offset, one.value) for one in read_any(data)] == [(2, b"behind")]


async def test_zstd_and_switched_off_conversion_are_refused(client: RawClient) -> None:
    """With the errors of Kafka."""
    await create(client)
    await produced(client, batch(b"x", codec=Codec.ZSTD))
    await create(client, "off", message_downconversion_enable="false")
    await produced(client, batch(b"x"), topic="off")
    async with (
        running_broker({"log.message.downconversion.enable": "false"}) as running,
        running.connect() as other,
    ):
        await create(other)
        assert (await fetched(other, 0, 3)).error_code == ErrorCode.UNSUPPORTED_VERSION

    for version in range(4):
        zstd = await fetched(client, 0, version)
        assert zstd.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        off = await fetched(client, 0, version, topic="off")
        assert (off.error_code, off.high_watermark) == (ErrorCode.UNSUPPORTED_VERSION, -1)
    assert (await fetched(client, 0, 4, topic="off")).error_code == ErrorCode.NONE


async def test_a_waiting_fetch_is_answered_when_records_come() -> None:
    """And one that waits for nothing is answered in time."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        client.send(1, _of_version(1, fetch(0, max_wait_ms=60_000)))
        while running.broker.parts.shared.waiting.count == 0:
            await asyncio.sleep(0.01)
        async with running.connect() as other:
            await produced(other, batch(b"x"))
        answer = await client.answer(1, fetch(0))

        assert b"x" in bytes(answer.responses[0].partitions[0].records)
        empty = await client.call(1, _of_version(1, fetch(1, max_wait_ms=1)))
        assert bytes(empty.responses[0].partitions[0].records) == b""


async def test_conversions_are_counted() -> None:
    """An operator sees which topics still have old clients."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await produced(client, _set(0, Codec.NONE), 1)
        await fetched(client, 0, 1)
        traffic = running.broker.parts.partitions.traffic[TOPIC]

        assert (traffic.raised_count, traffic.lowered_count) == (4, 4)
        await fetched(client, 0, 4)
        assert traffic.lowered_count == 4

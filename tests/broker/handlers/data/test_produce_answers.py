"""What the answer to a produce request says besides the error code, as Apache Kafka 3.9 and 4.1
say it: these were recorded there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.batch import iterate_batches, refresh_crc
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import read_records
from tests.broker.support.requests import NOW, TOPIC, batch, create, fetched, produce, produced
from tests.protocol.records.broken import BROKEN, batch_around, spoiled

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient


def with_field(position: int, content: bytes, *, sealed: bool = True) -> bytes:
    """A good batch with a field of its header changed."""
    made = bytearray(batch(b"value"))
    made[position : position + len(content)] = content
    if sealed:
        refresh_crc(made, 0)
    return bytes(made)


INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
TABLE = {
    "nothing": (b"", INVALID, -1, False),
    "one byte": (b"\0", INVALID, -1, False),
    "16 zeros": (bytes(16), CORRUPT, -1, True),
    "garbage": (b"\xff" * 80, CORRUPT, -1, True),
    "a length that is too long": (with_field(8, b"\0\0\1\0", sealed=False), INVALID, -1, False),
    "a length of 0": (with_field(8, bytes(4), sealed=False), CORRUPT, -1, True),
    "two batches": (batch(b"a") * 2, INVALID, -1, False),
    "format 3": (with_field(16, b"\3"), CORRUPT, -1, True),
    "format 1": (with_field(16, b"\1"), INVALID, -1, False),
    "a wrong checksum": (with_field(17, b"\0\0\0\0", sealed=False), CORRUPT, -1, False),
    "a base offset": (with_field(0, (5).to_bytes(8)), INVALID, 1, False),
    "a control batch": (with_field(21, b"\0\x20"), INVALID, 1, False),
    "a codec that does not exist": (with_field(21, b"\0\5"), INVALID, 1, True),
    "a count of -1": (with_field(57, b"\xff" * 4), INVALID, 1, False),
    "a last offset delta of -1": (with_field(23, b"\xff" * 4), INVALID, 1, False),
    "a broken record": (batch_around(BROKEN["a length of 0"][1]), INVALID, 1, False),
    "broken gzip": (spoiled(Codec.GZIP, "garbage"), INVALID, 1, True),
    "a sequence of -1": (batch(b"a", producer_id=7, producer_epoch=0), INVALID, 1, False),
}


@pytest.mark.parametrize("name", TABLE)
async def test_a_refusal_says_where_the_log_starts_if_the_log_was_asked(
    client: RawClient, name: str
) -> None:
    """Messages go with single records, with requests that cannot be read, and with transactions."""
    records, code, log_start, has_message = TABLE[name]
    await create(client)
    await produced(client, batch(b"a", b"b"))
    cut = DeleteRecordsPartition(partition_index=0, offset=1)
    await client.call(
        2, DeleteRecordsRequest([DeleteRecordsTopic(name=TOPIC, partitions=[cut])], 5000)
    )

    answer = await produced(client, records)

    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert answer.log_start_offset == log_start
    assert (answer.error_message is not None) == has_message
    assert (await fetched(client, 1)).high_watermark == 2


def request_for(*wanted: tuple[str, list[tuple[int, bytes]]]) -> ProduceRequest:
    """Topics with their partitions, named as often as one likes."""
    topics = [
        TopicProduceData(
            name=name,
            partition_data=[PartitionProduceData(index=i, records=data) for i, data in parts],
        )
        for name, parts in wanted
    ]
    return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)


@pytest.mark.parametrize("apart", [False, True])
async def test_of_a_partition_named_twice_the_last_records_count(
    client: RawClient, apart: bool
) -> None:
    """Within a topic, or in a topic that is named twice; there is one answer."""
    await create(client)
    first, last = (0, batch(b"first")), (0, batch(b"last"))
    if apart:
        request = request_for((TOPIC, [first]), (TOPIC, [last]))
    else:
        request = request_for((TOPIC, [first, last]))

    response = await client.call(9, request)
    got = await fetched(client, 0)

    ((answer,),) = [topic.partition_responses for topic in response.responses]
    assert (answer.error_code, answer.base_offset, got.high_watermark) == (ErrorCode.NONE, 0, 1)
    (stored,) = iterate_batches(bytes(got.records))
    assert [record.value for record in read_records(stored)] == [b"last"]


async def test_a_topic_named_twice_is_answered_once(client: RawClient) -> None:
    """With all of its partitions; and one without partitions not at all."""
    await create(client, partitions=2)
    named = request_for((TOPIC, [(0, batch(b"a"))]), (TOPIC, [(1, batch(b"b"))]), ("other", []))

    response = await client.call(9, named)

    (topic,) = response.responses
    assert [answer.index for answer in topic.partition_responses] == [0, 1]
    assert [answer.base_offset for answer in topic.partition_responses] == [0, 0]


@pytest.mark.parametrize("producer_epoch", [0, -1])
async def test_a_repetition_is_answered_with_the_time_of_the_first(
    client: RawClient, producer_epoch: int
) -> None:
    """Kafka gives it also where it does not set times itself; and a producer may have no epoch."""
    await create(client)
    records = batch(b"a", b"b", producer_id=7, producer_epoch=producer_epoch, base_sequence=0)

    answers = [await produced(client, records) for _ in range(2)]

    assert [answer.base_offset for answer in answers] == [0, 0]
    assert [answer.log_append_time_ms for answer in answers] == [-1, NOW + 1]


async def test_a_repetition_that_is_forgotten_is_out_of_order(client: RawClient) -> None:
    """Five batches are remembered (KIP-185)."""
    await create(client)

    def numbered(sequence: int, producer_epoch: int = 0) -> bytes:
        return batch(b"x", producer_id=7, producer_epoch=producer_epoch, base_sequence=sequence)

    for sequence in range(7):
        await produced(client, numbered(sequence))
    codes = [(await produced(client, numbered(sequence))).error_code for sequence in (0, 1, 2)]
    old = await produced(client, numbered(7, -1))

    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert codes == [out_of_order, out_of_order, ErrorCode.NONE]
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_an_empty_transactional_id_is_an_invalid_request(client: RawClient) -> None:
    """None at all is not allowed to write in a transaction."""
    await create(client)
    records = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    codes = []
    for transactional_id in ("", None):
        request = produce(records)
        request.transactional_id = transactional_id
        response = await client.call(9, request)
        codes.append(response.responses[0].partition_responses[0].error_code)

    assert codes == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ]

"""Messages of format 1 seen as batches: the same offsets, times and records, whatever is inside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.message_sets.kept import KeptMessage
from ottla.protocol.message_sets.raising import raised
from ottla.protocol.message_sets.writer import wrapper as write_wrapper
from ottla.protocol.records.batch import TimestampType, check_crc
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.old_messages import parse_message, read_any, read_messages
from ottla.protocol.records.record import Record, read_records
from tests.protocol.records.old_bytes import (
    LOG_APPEND_TIME,
    Made,
    entry,
    message_set,
    wrap,
    wrapper,
)

CODECS = list(Codec)[:4]
FIELDS = st.none() | st.binary(max_size=9)
MADE = st.lists(st.tuples(st.integers(0, 1 << 40), FIELDS, FIELDS), min_size=1, max_size=9)


def made_at(base_offset: int, drawn: list[tuple[int, bytes | None, bytes | None]]) -> list[Made]:
    return [Made(base_offset + n, *fields) for n, fields in enumerate(drawn)]


@given(MADE, st.integers(0, 1 << 40), st.sampled_from(CODECS[1:]), st.booleans())
def test_a_wrapper_is_a_batch_of_its_records(
    drawn: list[tuple[int, bytes | None, bytes | None]],
    base_offset: int,
    codec: Codec,
    is_stamped: bool,
) -> None:
    """First and last offset, the largest time, and every record."""
    made = made_at(base_offset, drawn)
    data = wrapper(1, made, codec, LOG_APPEND_TIME if is_stamped else 0)

    one = KeptMessage.parse(data)

    assert (one.base_offset, one.last_offset) == (base_offset, base_offset + len(made) - 1)
    assert one.record_count == len(made)
    assert one.max_timestamp == max(each.timestamp for each in made)
    assert check_crc(one)
    assert list(read_records(one.as_batch())) == list(read_any(data))
    assert one.as_batch().timestamp_type is one.timestamp_type


@given(MADE, st.integers(0, 1 << 40), st.sampled_from(CODECS[1:]))
def test_a_placed_wrapper_reads_at_its_offsets(
    drawn: list[tuple[int, bytes | None, bytes | None]], offset: int, codec: Codec
) -> None:
    """The offset is outside the checksum, and the time is inside."""
    buffer = memoryview(bytearray(wrapper(1, made_at(0, drawn), codec)))
    one = KeptMessage.parse(buffer)
    one.stamp(offset, 5)
    assert check_crc(KeptMessage.parse(buffer))
    one.stamp_append_time(77)

    found = list(read_any(buffer))

    assert [each.offset for each in found] == list(range(offset, offset + len(drawn)))
    assert {each.timestamp for each in found} == {77}
    assert KeptMessage.parse(buffer).timestamp_type is TimestampType.LOG_APPEND_TIME


@given(MADE, st.integers(0, 1 << 40), st.sampled_from(CODECS[1:]), st.booleans())
def test_what_the_writer_makes_of_records_read_is_the_same_bytes(
    drawn: list[tuple[int, bytes | None, bytes | None]],
    base_offset: int,
    codec: Codec,
    is_stamped: bool,
) -> None:
    """Encoding what was decoded loses nothing, so a corpus can be compared byte by byte."""
    kind = TimestampType(int(is_stamped))
    time = max(each[0] for each in drawn)
    made = [
        one._replace(timestamp=time if is_stamped else one.timestamp)
        for one in made_at(base_offset, drawn)
    ]
    records = list(read_any(wrapper(1, made, codec, 8 * is_stamped)))
    data = write_wrapper(1, records, codec, kind)

    again = write_wrapper(1, list(read_messages(parse_message(data))), codec, kind)

    assert again == data
    assert list(read_any(again)) == records


def test_a_wrong_checksum_is_seen_and_nothing_is_unpacked() -> None:
    """A flipped bit must not reach the decompressor, nor cost an exception in a scan."""
    data = bytearray(wrapper(1, made_at(4, [(1, b"k", b"v")] * 3), Codec.GZIP))
    data[-3] ^= 1

    one = KeptMessage.parse(data)

    assert not check_crc(one)
    assert (one.base_offset, one.last_offset) == (6, 6)


@pytest.mark.parametrize(
    "data",
    [
        wrap(1, Made(3, 0, None, b"\0" * 7), Codec.GZIP),
        wrap(1, Made(3, 0, None, b""), Codec.GZIP),
        wrap(1, Made(1, 0, None, message_set(1, [Made(5, 0, None, b"v")])), Codec.GZIP),
        entry(1, Made(-1, 0, None, b"v")),
    ],
)
def test_wrappers_that_contradict_themselves_are_refused(data: bytes) -> None:
    """What a scan cannot place is damage."""
    with pytest.raises(KafkaError) as caught:
        KeptMessage.parse(data)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_wrapper_with_gaps_is_no_batch() -> None:
    """Only a Kafka that has compacted it makes such a wrapper, and its log is rewritten."""
    inner = message_set(1, [Made(0, 0, None, b"a"), Made(2, 0, None, b"b")])
    one = KeptMessage.parse(wrap(1, Made(9, 0, None, inner), Codec.GZIP))

    assert (one.base_offset, one.last_offset) == (7, 9)
    with pytest.raises(KafkaError, match="missing"):
        one.as_batch()


@given(MADE)
def test_messages_and_batches_tell_the_same_records(
    drawn: list[tuple[int, bytes | None, bytes | None]],
) -> None:
    """Kept or raised, consumers read the same."""
    made = made_at(0, drawn)
    data = message_set(1, made)
    batch = raised(data)

    kept: list[Record] = []
    position = 0
    while position < len(data):
        one = KeptMessage.parse(data, position)
        kept += read_records(one.as_batch())
        position += one.size_bytes

    assert kept == list(read_records(batch))

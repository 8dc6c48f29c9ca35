"""Message sets are written byte for byte as the clients and brokers of their time wrote them."""

from __future__ import annotations

import importlib
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.message_sets.writer import form_of, message, wrapper
from ottla.protocol.records.batch import TimestampType
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.lz4_frames import header_checksum
from ottla.protocol.records.old_messages import OldMessage, iterate_entries, read_any
from ottla.protocol.records.record import Record
from tests.protocol.records.samples import FIRST_TIMESTAMP, quick

legacy: Any = importlib.import_module("kafka.record.legacy_records")
_CREATED, _APPENDED = TimestampType
_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
_fields = st.none() | st.binary(max_size=100)
rows = st.lists(st.tuples(st.integers(0, 2**60), _fields, _fields), min_size=1, max_size=10)
both = pytest.mark.parametrize("magic", [0, 1])

FIVE = [
    Record(10 + n, FIRST_TIMESTAMP + n, b"k%d" % n, None if n == 2 else b"v", ()) for n in range(5)
]


def _written(magic: int, made: list[Record]) -> bytes:
    form = form_of(magic, Codec.NONE, _CREATED)
    return b"".join(message(form, each.offset, *each[1:4]) for each in made)


@pytest.mark.requirement("FMT-04", "FMT-05")
def test_the_fields_stand_where_the_layout_has_them() -> None:
    """Offset, size, checksum, magic, attributes, in format 1 the timestamp, key, value."""
    old = message((0, 0), 0, FIRST_TIMESTAMP, b"k", b"v")
    new = message((1, 0), 0, FIRST_TIMESTAMP, b"k", b"v")

    assert old.hex() == "0000000000000000000000101fecd70a0000000000016b0000000176"
    assert new.hex() == "00000000000000000000001839268c3301000000018bcfe56800000000016b0000000176"


@both
@quick
@given(made=rows)
def test_sets_are_those_of_kafka_python(
    magic: int, made: list[tuple[int, bytes | None, bytes | None]]
) -> None:
    """Byte for byte, nulls and empty fields included."""
    builder = legacy.LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for offset, (timestamp, key, value) in enumerate(made):
        builder.append(offset, timestamp, key, value)

    assert _written(magic, [Record(n, *row) for n, row in enumerate(made)]) == builder.build()


@pytest.mark.requirement("FMT-06")
@both
def test_two_sets_one_behind_the_other_are_a_set(magic: int) -> None:
    """No count comes first."""
    one, other = _written(magic, FIVE[:2]), _written(magic, FIVE[2:])

    assert one + other == _written(magic, FIVE)
    assert [each.offset for each in read_any(one + other)] == [10, 11, 12, 13, 14]


@pytest.mark.requirement("FMT-09")
@both
def test_the_checksum_is_crc32_from_the_magic_to_the_end_of_the_value(magic: int) -> None:
    """Not CRC-32C, which only record batches have."""
    data = _written(magic, FIVE[:1])

    assert int.from_bytes(data[12:16]) == zlib.crc32(data[16:])
    assert data[16] == magic


@pytest.mark.requirement("FMT-07", "FMT-08")
def test_attributes_name_the_codec_and_the_kind_of_time() -> None:
    """Bit 3 is of format 1 alone; all others are zero."""
    assert [form_of(0, codec, _CREATED)[1] for codec in (Codec.NONE, *_CODECS)] == [0, 1, 2, 3]
    assert [form_of(1, codec, _CREATED)[1] for codec in (Codec.NONE, *_CODECS)] == [0, 1, 2, 3]
    assert [form_of(1, codec, _APPENDED)[1] for codec in (Codec.NONE, *_CODECS)] == [8, 9, 10, 11]
    assert [form_of(0, codec, _APPENDED)[1] for codec in (Codec.NONE, *_CODECS)] == [0, 1, 2, 3]


@pytest.mark.requirement("FMT-13", "FMT-14")
@both
@pytest.mark.parametrize("codec", _CODECS)
def test_a_wrapper_of_5_from_10_on_has_offset_14(magic: int, codec: Codec) -> None:
    """A null key, the codec, and the compressed set as the value."""
    data = wrapper(magic, FIVE, codec, _CREATED)
    (outer,) = iterate_entries(data)
    assert isinstance(outer, OldMessage)

    assert (outer.offset, outer.key, outer.attributes) == (14, None, codec)
    assert outer.timestamp == (FIVE[-1].timestamp if magic else -1)
    expected = [each if magic else each._replace(timestamp=-1) for each in FIVE]
    assert list(read_any(data)) == expected


@pytest.mark.requirement("FMT-17")
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_inner_offsets_are_found_from_the_wrapper_with_gaps(codec: Codec) -> None:
    """As kafka-python computes them: outer minus the last inner one plus each inner one."""
    made = [FIVE[0], FIVE[1], FIVE[3]]
    data = wrapper(1, made, codec, _CREATED)

    assert [each.offset for each in legacy.LegacyRecordBatch(data, 1)] == [10, 11, 13]
    assert [each.offset for each in read_any(data)] == [10, 11, 13]


@both
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
@pytest.mark.parametrize("timestamp_type", TimestampType)
def test_kafka_python_reads_wrappers(
    magic: int, codec: Codec, timestamp_type: TimestampType
) -> None:
    """Keys, values, absolute offsets and times."""
    appended = timestamp_type is TimestampType.LOG_APPEND_TIME
    made = [each._replace(timestamp=FIRST_TIMESTAMP) for each in FIVE] if appended else FIVE
    theirs = [
        Record(each.offset, -1 if magic == 0 else each.timestamp, each.key, each.value)
        for each in legacy.LegacyRecordBatch(wrapper(magic, made, codec, timestamp_type), magic)
    ]

    assert theirs == [each if magic else each._replace(timestamp=-1) for each in made]


def test_lz4_of_format_0_has_the_checksum_that_its_readers_compute() -> None:
    """Over the frame's magic as well; format 1 does it right."""
    frames = {}
    for magic in (0, 1):
        (outer,) = iterate_entries(wrapper(magic, FIVE, Codec.LZ4, _CREATED))
        assert isinstance(outer, OldMessage)
        assert outer.value is not None
        frames[magic] = bytes(outer.value)

    assert frames[0][6] == header_checksum(frames[0][:6])
    assert frames[1][6] == header_checksum(frames[1][4:6])

"""The header view, stamping in place, iteration and the checksum."""

from __future__ import annotations

import struct

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import (
    TimestampType,
    check_crc,
    iterate_batches,
    iterate_whole_batches,
    parse_batch,
    stamp,
    stamp_append_time,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import CODECS, Codec
from ottla.protocol.records.record import read_records
from tests.protocol.records.samples import (
    COMMIT_MARKER,
    FIRST_TIMESTAMP,
    ONE_RECORD,
    TRANSACTIONAL,
    code_of,
    sample_batch,
)


def _is_sound(data: bytes | bytearray) -> bool:
    try:
        return check_crc(parse_batch(data))
    except KafkaError:
        return False


@pytest.mark.requirement("FMT-19")
def test_every_header_field_is_read_from_its_place() -> None:
    """All offsets of the 61 header bytes, from a batch in which all fields differ."""
    data = struct.pack(">qiibIhiqqqhii", 11, 49, 22, 2, 33, 0x1C, 44, 55, 66, 77, 88, 99, 5)

    batch = parse_batch(data)

    assert (
        batch.base_offset,
        batch.size_bytes,
        batch.leader_epoch,
        batch.magic,
        batch.crc,
    ) == (11, 61, 22, 2, 33)
    assert (
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
    ) == (0x1C, 44, 55, 66)
    assert (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    ) == (77, 88, 99, 5)
    assert (batch.last_offset, batch.next_offset, batch.last_sequence) == (55, 56, 143)


@pytest.mark.requirement("FMT-23")
@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (0x08, "timestamp_type"),
        (0x10, "is_transactional"),
        (0x20, "is_control"),
        (0x40, "has_delete_horizon"),
    ],
)
def test_each_attribute_bit_means_one_thing(attributes: int, name: str) -> None:
    """A bit read at the wrong place turns a marker into data, or data into a marker."""
    names = ("timestamp_type", "is_transactional", "is_control", "has_delete_horizon")
    data = bytearray(ONE_RECORD)
    struct.pack_into(">h", data, 21, attributes)

    batch = parse_batch(data)

    assert {name} == {other for other in names if getattr(batch, other)}


@pytest.mark.requirement("FMT-23")
@pytest.mark.parametrize(
    ("bits", "codec"),
    [(0, Codec.NONE), (1, Codec.GZIP), (2, Codec.SNAPPY), (3, Codec.LZ4), (4, Codec.ZSTD)],
)
def test_the_lowest_bits_name_the_codec_and_the_highest_are_zero(bits: int, codec: Codec) -> None:
    """Every client decompresses by these numbers."""
    options = BatchOptions(codec=codec, producer_id=7, base_sequence=0, is_transactional=True)
    batch = parse_batch(encode_batch([(7, b"k", b"v" * 500, ())], options))

    assert (batch.codec, batch.attributes) == (codec, bits | 0x10)


@pytest.mark.parametrize("codec", CODECS)
def test_codec_is_in_the_three_low_bits(codec: Codec) -> None:
    """The codec decides who must be able to read the payload (KIP-110 for zstd)."""
    batch = parse_batch(sample_batch(codec))

    assert codec is batch.codec
    assert batch.is_compressed == (codec is not Codec.NONE)


def test_unassigned_codec_is_an_error_value_of_the_protocol() -> None:
    """Numbers 5 to 7 come from broken or future producers, who must hear which it was."""
    data = bytearray(ONE_RECORD)
    data[22] = 5

    with pytest.raises(KafkaError) as raised:
        _ = parse_batch(data).codec

    assert ErrorCode.UNSUPPORTED_COMPRESSION_TYPE is code_of(raised.value)


@pytest.mark.requirement("FMT-20")
def test_checksum_covers_attributes_to_end() -> None:
    """One flipped bit anywhere after the checksum field is detected (S-31, LOG-35)."""
    for data in (ONE_RECORD, TRANSACTIONAL, COMMIT_MARKER):
        assert check_crc(parse_batch(data))
        for position in range(21, len(data)):
            for bit in range(8):
                damaged = bytearray(data)
                damaged[position] ^= 1 << bit
                assert not _is_sound(damaged)


@pytest.mark.requirement("FMT-21")
def test_stamping_offset_and_epoch_keeps_the_checksum() -> None:
    """A leader stamps every batch; recomputing the checksum would be most of the append."""
    data = bytearray(b"before" + TRANSACTIONAL + b"after")

    stamp(data, 6, 2**40, 17)

    batch = parse_batch(data, 6)
    assert (batch.base_offset, batch.leader_epoch) == (2**40, 17)
    assert check_crc(batch)
    assert TRANSACTIONAL[16:] == data[6 + 16 : -5]
    assert TRANSACTIONAL[8:12] == data[6 + 8 : 6 + 12]
    assert bytes(data[:6] + data[-5:]) == b"beforeafter"


def test_stamping_through_the_view_updates_view_and_bytes() -> None:
    """The broker keeps using the view after stamping."""
    data = bytearray(TRANSACTIONAL)
    batch = parse_batch(data)

    batch.stamp(1000, 3)
    batch.stamp_append_time(FIRST_TIMESTAMP + 9)

    again = parse_batch(data)
    assert (batch.last_offset, batch.leader_epoch) == (1001, 3)
    assert (again.base_offset, again.leader_epoch, again.crc) == (
        batch.base_offset,
        batch.leader_epoch,
        batch.crc,
    )
    assert (again.attributes, again.max_timestamp) == (batch.attributes, batch.max_timestamp)


def test_append_time_applies_to_every_record_and_keeps_the_rest() -> None:
    """LogAppendTime changes two fields inside the checksum, which must hold again (S-31)."""
    data = bytearray(b"pad" + sample_batch(Codec.LZ4) + ONE_RECORD)

    crc = stamp_append_time(data, 3, FIRST_TIMESTAMP + 5)

    batch = parse_batch(data, 3)
    assert crc == batch.crc
    assert check_crc(batch)
    assert TimestampType.LOG_APPEND_TIME is batch.timestamp_type
    assert {FIRST_TIMESTAMP + 5} == {record.timestamp for record in read_records(batch)}
    assert data.endswith(ONE_RECORD)


def test_append_time_needs_a_writable_buffer() -> None:
    """Stamping bytes of a read-only buffer must fail, not copy silently."""
    with pytest.raises(TypeError):
        stamp_append_time(memoryview(ONE_RECORD), 0, 5)


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "expected"),
    [(0, 0, 0), (5, 3, 8), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 9, 6)],
)
def test_sequences_wrap_to_zero(base_sequence: int, last_offset_delta: int, expected: int) -> None:
    """After 2^31 - 1 comes 0: an idempotent producer that runs for months gets there."""
    data = bytearray(ONE_RECORD)
    struct.pack_into(">i", data, 23, last_offset_delta)
    struct.pack_into(">i", data, 53, base_sequence)

    assert expected == parse_batch(data).last_sequence


def test_batch_without_producer_has_no_sequence() -> None:
    """-1 is "none" and must not turn into a sequence by adding a delta."""
    batch = parse_batch(sample_batch())

    assert not batch.has_producer_id
    assert batch.last_sequence == -1


@pytest.mark.requirement("FMT-22")
@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_told_apart_before_anything_else_is_read(magic: int) -> None:
    """Bytes 12 to 15 are a checksum there: reading them as an epoch would be believed."""
    message = bytearray(ONE_RECORD[:30])
    message[16] = magic

    with pytest.raises(KafkaError) as raised:
        parse_batch(message)

    assert ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT is code_of(raised.value)


@pytest.mark.parametrize("magic", [3, 0x7F, 0xFF])
def test_unknown_magic_is_corrupt(magic: int) -> None:
    """There is no later format; whatever says so was damaged."""
    data = bytearray(ONE_RECORD)
    data[16] = magic

    with pytest.raises(KafkaError) as raised:
        parse_batch(data)

    assert ErrorCode.CORRUPT_MESSAGE is code_of(raised.value)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 59, 2**31 - 1])
def test_length_that_the_bytes_do_not_bear_out_is_refused(length: int) -> None:
    """S-02: a length of 0 loops for ever, a huge one allocates; 49 is the smallest honest one."""
    data = bytearray(ONE_RECORD)
    struct.pack_into(">i", data, 8, length)

    with pytest.raises(KafkaError) as raised:
        list(iterate_batches(data))

    assert ErrorCode.CORRUPT_MESSAGE is code_of(raised.value)


@pytest.mark.parametrize("field_position", [23, 57])
def test_negative_counts_are_refused(field_position: int) -> None:
    """A negative last offset delta would make a reader go backwards for ever."""
    data = bytearray(ONE_RECORD)
    struct.pack_into(">i", data, field_position, -1)

    with pytest.raises(KafkaError) as raised:
        parse_batch(data)

    assert ErrorCode.CORRUPT_MESSAGE is code_of(raised.value)


@pytest.mark.parametrize("size", range(len(ONE_RECORD)))
def test_every_prefix_of_a_batch_is_incomplete(size: int) -> None:
    """A torn write may end anywhere."""
    with pytest.raises(KafkaError) as raised:
        parse_batch(ONE_RECORD[:size])

    assert ErrorCode.CORRUPT_MESSAGE is code_of(raised.value)


def test_iteration_yields_all_batches_then_the_error() -> None:
    """What precedes the damage is good data and must come out."""
    data = ONE_RECORD + TRANSACTIONAL + bytes(100)
    batches = iterate_batches(data)

    assert [0, len(ONE_RECORD)] == [next(batches).position, next(batches).position]
    with pytest.raises(KafkaError):
        next(batches)


def test_whole_batches_stop_before_a_torn_one() -> None:
    """A size-limited fetch ends in the middle of a batch; that is no error (KIP-74)."""
    whole = ONE_RECORD + TRANSACTIONAL

    for cut in range(len(ONE_RECORD), len(whole)):
        assert len(list(iterate_whole_batches(whole[:cut]))) == 1
    assert len(list(iterate_whole_batches(whole))) == 2


def test_whole_batches_still_report_damage() -> None:
    """A tail that is no piece of a batch is not skipped in silence."""
    with pytest.raises(KafkaError):
        list(iterate_whole_batches(ONE_RECORD + bytes(100)))


@pytest.mark.requirement("FMT-36", "LOG-36")
def test_only_offset_and_epoch_differ_after_stamping_any_codec() -> None:
    """The bytes a consumer gets are the producer's; records are not touched on the way."""
    for codec in CODECS:
        produced = encode_batch([(7, b"k", b"v" * 500, ())], BatchOptions(codec=codec))
        stored = bytearray(produced)

        stamp(stored, 0, 123_456, 7)

        changed = {
            place
            for place, (before, after) in enumerate(zip(produced, stored, strict=True))
            if before != after
        }
        assert changed <= {*range(8), *range(12, 16)}

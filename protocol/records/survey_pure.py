"""Checking the records of a batch without making objects of them: the plain twin of
compiled_survey.pyx.

It goes over good records and stops at the first that is not good, or not all there: what is wrong
with that one is for record_stream.py to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import (
    CRC_END,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.varint import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    ZIGZAG,
    decode_varint,
)

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer

Survey = tuple[int, int, int, int, int]
"""The number of the first record that was not gone over and the position where it begins; the
earliest and the latest timestamp of those before it (2^63-1 and -2^63 if there are none); the
number of the first of them without a key, -1 if all have one."""

SoundBatch = tuple[int, int, int, int, int, int, int, int, int]
"""Of a batch's header: size in bytes, leader epoch, checksum, number of records, base and largest
timestamp, producer id, its epoch and base sequence."""

INT_BYTES_MAX = 5
"""Of a varint that holds 32 bits: Java's readers give up behind it."""


class _NotGoodError(Exception):
    """A record that the survey stops at."""


def survey_records(
    data: Buffer, position: int, first: int, stop: int, base_timestamp: int
) -> Survey:
    """Go over the records with the numbers ``first`` to before ``stop``, from a position on.

    A good record ends where its length says and within the data, has its number as offset delta, a
    timestamp of 64 bits, sizes and counts that Java's readers take, and a key in each header.
    Raises ValueError for a position outside of the data."""
    if not 0 <= position <= len(data) or first < 0:
        raise ValueError(f"record {first} at {position} in {len(data)} bytes")
    index, earliest, latest, keyless = first, INT64_MAX, INT64_MIN, -1
    try:
        while index < stop:
            after, timestamp, has_key = _record(data, position, index, base_timestamp)
            if keyless < 0 and not has_key:
                keyless = index
            earliest = min(earliest, timestamp)
            latest = max(latest, timestamp)
            position = after
            index += 1
    except (IndexError, KafkaError, _NotGoodError):
        pass
    return index, position, earliest, latest, keyless


def survey_batch(data: memoryview) -> SoundBatch | None:
    """The header, if the bytes are one batch of format 2 and sound, as most that are produced; else
    None.

    That is: base offset 0, no attributes, as many records as the header says, and good ones, of
    which none has a negative timestamp but -1, the latest has that of the header; the checksum is
    right, and a producer id has a sequence. What is wrong with any other is not said."""
    if len(data) < HEADER_BYTES:
        return None
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        count,
    ) = HEADER.unpack_from(data)
    size_bytes = length + LENGTH_END
    if magic != MAGIC or base_offset or attributes or size_bytes != len(data):
        return None
    if count <= 0 or last_offset_delta != count - 1:
        return None
    if producer_id != NO_PRODUCER_ID and (producer_id < 0 or sequence < 0):
        return None
    if crc32c(data[CRC_END:]) != crc:
        return None
    index, end, earliest, latest, _ = survey_records(data, HEADER_BYTES, 0, count, base_timestamp)
    if index != count or end != size_bytes or latest != max_timestamp or earliest < NO_TIMESTAMP:
        return None
    return (
        size_bytes,
        leader_epoch,
        crc,
        count,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
    )


def _record(data: Buffer, position: int, index: int, base_timestamp: int) -> tuple[int, int, bool]:
    length, position = _int(data, position)
    end = position + length
    if length <= 0 or end > len(data):
        raise _NotGoodError
    delta, position = decode_varint(data, position + 1)
    timestamp = base_timestamp + delta
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise _NotGoodError
    number, position = _int(data, position)
    if number != index:
        raise _NotGoodError
    key_size, position = _int(data, position)
    if not -1 <= key_size <= end - position:
        raise _NotGoodError
    position = _skip(data, position + max(key_size, 0), -1)
    count, position = _int(data, position)
    if count < 0:
        raise _NotGoodError
    for _ in range(count):
        if position >= end:
            raise _NotGoodError
        position = _skip(data, _skip(data, position, 0), -1)
    if position != end:
        raise _NotGoodError
    return end, timestamp, key_size >= 0


def _skip(data: Buffer, position: int, least: int) -> int:
    size, position = _int(data, position)
    if size < least:
        raise _NotGoodError
    return position + max(size, 0)


def _int(data: Buffer, position: int) -> tuple[int, int]:
    if (low := data[position]) < 0x80:
        return ZIGZAG[low], position + 1
    value, end = decode_varint(data, position)
    if end - position > INT_BYTES_MAX or not INT32_MIN <= value <= INT32_MAX:
        raise _NotGoodError
    return value, end

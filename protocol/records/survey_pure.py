"""Checking the records of a batch without making objects of them: the plain twin of
compiled_survey.pyx.

It goes over good records and stops at the first that is not good, or not all there: what is wrong
with that one is for record_stream.py to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import KafkaError
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

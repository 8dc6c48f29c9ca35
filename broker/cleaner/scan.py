"""Records as compaction sees them: where each lies, its key, and whether it has a value. Pure.

Nothing is decoded that is not needed, and records that survive are copied as they are. HOT: once
per record of a compacted log.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.record import malformed
from ottla.protocol.records.varint import ZIGZAG, decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.records.batch import RecordBatch

_NULL = 1
# Keys up to here are compared themselves; longer ones by a digest that is one byte longer, so that
# no digest can be taken for a key. The digest is collision resistant.
EXACT_KEY_BYTES_MAX = 31
_DIGEST_BYTES = EXACT_KEY_BYTES_MAX + 1
assert _DIGEST_BYTES > EXACT_KEY_BYTES_MAX, "a digest would replace another key's record"


class RecordSpan(NamedTuple):
    """One record in its batch's uncompressed data: [start, end), its time in [body + 1, time_end).

    ``key`` is as ``fingerprint`` makes it, None for a record without one."""

    start: int
    body: int
    time_end: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def fingerprint(key: bytes) -> bytes:
    """What stands for a key in a map: itself if it is short, else a digest of 32 bytes."""
    if len(key) <= EXACT_KEY_BYTES_MAX:
        return key
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


def scan_records(batch: RecordBatch, data: bytes) -> Iterator[RecordSpan]:
    """The records of a batch, whose uncompressed data is given, in order.

    Raises KafkaError(CORRUPT_MESSAGE) while iterating if they contradict their batch."""
    zigzag, new = ZIGZAG, tuple.__new__
    position, limit = 0, len(data)
    try:
        for _ in range(batch.record_count):
            start = position
            if (low := data[position]) < 0x80:
                length = zigzag[low]
                body = position + 1
            elif (high := data[position + 1]) < 0x80:
                length = zigzag[low - 0x80 + (high << 7)]
                body = position + 2
            else:
                length, body = decode_varint(data, position)
            end = body + length
            if (low := data[body + 1]) < 0x80:
                timestamp_delta = zigzag[low]
                time_end = body + 2
            else:
                timestamp_delta, time_end = decode_varint(data, body + 1)
            if (low := data[time_end]) < 0x80:
                offset_delta = zigzag[low]
                position = time_end + 1
            elif (high := data[time_end + 1]) < 0x80:
                offset_delta = zigzag[low - 0x80 + (high << 7)]
                position = time_end + 2
            else:
                offset_delta, position = decode_varint(data, time_end)
            key = None
            if (low := data[position]) == _NULL:
                position += 1
            else:
                if low < 0x80:
                    size = zigzag[low]
                    position += 1
                else:
                    size, position = decode_varint(data, position)
                key = data[position : position + size]
                position += size
                if size > EXACT_KEY_BYTES_MAX:
                    key = fingerprint(key)
            is_tombstone = data[position] == _NULL
            if not position < end <= limit or (key is not None and size < 0):
                raise malformed(batch, "sizes within a record contradict its length")
            yield new(
                RecordSpan,
                (start, body, time_end, end, timestamp_delta, offset_delta, key, is_tombstone),
            )
            position = end
    except IndexError:
        raise malformed(batch, "the last one is incomplete") from None
    if position != limit:
        raise malformed(batch, "bytes follow the last one")

"""What is inside a batch: single records, read one after the other (KIP-98 layout).

A record is: length, attributes (unused), timestamp delta, offset delta, key, value, headers; all
numbers are zigzag varints. The broker does not come here on its produce and fetch paths; clients,
compaction and the checks of odd cases do. HOT for clients: one and two byte varints are read in
line, and fields are slices of one bytes object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.ports import Buffer
from ottla.protocol.records.batch import HEADER_BYTES, RecordBatch, TimestampType
from ottla.protocol.records.compression import OUTPUT_BYTES_MAX, decompress
from ottla.protocol.records.varint import INT64_MAX, INT64_MIN, ZIGZAG, decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]
Row = tuple[int, int, bytes | None, bytes | None, Headers]
"""What a record is made of, in its order: offset, timestamp, key, value, headers."""
Entry = tuple[int, Buffer | None, Buffer | None, Headers]
"""What a producer hands in: timestamp (ms), key, value, headers."""

# Length, attributes, both deltas, two null fields, no headers: one byte each.
RECORD_BYTES_MIN = 7
_HEADER_BYTES_MIN = 2
_EMPTY_BATCH_BYTES = HEADER_BYTES
# The varint of -1, the size of what is null.
_NULL = 1
# Deltas of one and two bytes are smaller: they are added without a look at the sum.
_SHORT_DELTA_MAX = 1 << 13


class Record(NamedTuple):
    """One record of the log. Headers keep their order and their duplicates."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Encoded(NamedTuple):
    """Records back to back behind HEADER_BYTES of room, to which nothing is copied any more when
    they become a batch; the two timestamps are -1 if there are none."""

    data: bytearray
    base_timestamp: int
    max_timestamp: int
    record_count: int


def read_records(
    batch: RecordBatch, output_limit_bytes: int = OUTPUT_BYTES_MAX
) -> Iterator[Record]:
    """The records of a batch in order; also those of control batches, see control.py.

    Decompresses at the call. Raises KafkaError there or while iterating: CORRUPT_MESSAGE when
    records and header disagree, and what ``decompress`` raises."""
    new = tuple.__new__
    return (new(Record, row) for row in scan(batch, record_bytes(batch, output_limit_bytes)))


def record_bytes(batch: RecordBatch, output_limit_bytes: int = OUTPUT_BYTES_MAX) -> bytes:
    """The encoded records without compression, checked to be able to hold that many."""
    if batch.record_count == 0 and batch.size_bytes == _EMPTY_BATCH_BYTES:
        # Compaction leaves empty batches behind to remember producers; they hold no frame.
        return b""
    data = decompress(batch.codec, batch.payload, output_limit_bytes)
    _check_room(batch, data)
    return data


def record_view(batch: RecordBatch, output_limit_bytes: int = OUTPUT_BYTES_MAX) -> Buffer:
    """As ``record_bytes``, but the batch's own bytes where they are not compressed."""
    if batch.is_compressed or batch.payload.nbytes > output_limit_bytes:
        return record_bytes(batch, output_limit_bytes)
    _check_room(batch, batch.payload)
    return batch.payload


def _check_room(batch: RecordBatch, data: Buffer) -> None:
    if batch.record_count * RECORD_BYTES_MIN > len(data):
        raise malformed(batch, f"{len(data)} bytes cannot hold {batch.record_count} records")


def malformed(batch: RecordBatch, reason: str) -> KafkaError:
    """The error for records that contradict their batch."""
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"records of the batch at offset {batch.base_offset}: {reason}"
    )


def scan(batch: RecordBatch, data: bytes) -> Iterator[Row]:
    """The records of a batch from its ``record_bytes``, as plain tuples: half the price of Records.

    Raises KafkaError(CORRUPT_MESSAGE) while iterating."""
    rows = _decode(batch, data)
    reach = _SHORT_DELTA_MAX
    for base in (batch.base_offset, batch.base_timestamp):
        if not INT64_MIN + reach <= base <= INT64_MAX - reach:
            return _checked(batch, rows)
    return rows


def _checked(batch: RecordBatch, rows: Iterator[Row]) -> Iterator[Row]:
    """For batches that begin at the very ends of the numbers, where any delta may lead beyond."""
    for row in rows:
        yield (_fit(batch, row[0]), _fit(batch, row[1]), *row[2:])


def _fit(batch: RecordBatch, number: int) -> int:
    if not INT64_MIN <= number <= INT64_MAX:
        raise malformed(batch, "an offset or a timestamp does not fit 64 bits")
    return number


def _decode(batch: RecordBatch, data: bytes) -> Iterator[Row]:
    """The loop. Each record must end exactly where its length says, the last one where the data
    ends, and no size may be negative: then no slice can have been cut short in silence."""
    zigzag = ZIGZAG
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    position, limit = 0, len(data)
    try:
        for _ in range(batch.record_count):
            if (low := data[position]) < 0x80:
                length = zigzag[low]
                position += 1
            elif (high := data[position + 1]) < 0x80:
                length = zigzag[low - 0x80 + (high << 7)]
                position += 2
            else:
                length, position = decode_varint(data, position)
            end = position + length
            # The attributes byte, between length and deltas, has no meaning yet.
            if (low := data[position + 1]) < 0x80:
                timestamp = base_timestamp + zigzag[low]
                position += 2
            else:
                delta, position = decode_varint(data, position + 1)
                timestamp = 0 if is_append_time else _fit(batch, base_timestamp + delta)
            if (low := data[position]) < 0x80:
                offset = base_offset + zigzag[low]
                position += 1
            elif (high := data[position + 1]) < 0x80:
                offset = base_offset + zigzag[low - 0x80 + (high << 7)]
                position += 2
            else:
                delta, position = decode_varint(data, position)
                offset = _fit(batch, base_offset + delta)
            key, key_size, value, value_size = None, 0, None, 0
            if (low := data[position]) == _NULL:
                position += 1
            else:
                if low < 0x80:
                    key_size = zigzag[low]
                    position += 1
                else:
                    key_size, position = decode_varint(data, position)
                key = data[position : position + key_size]
                position += key_size
            if (low := data[position]) == _NULL:
                position += 1
            else:
                if low < 0x80:
                    value_size = zigzag[low]
                    position += 1
                elif (high := data[position + 1]) < 0x80:
                    value_size = zigzag[low - 0x80 + (high << 7)]
                    position += 2
                else:
                    value_size, position = decode_varint(data, position)
                value = data[position : position + value_size]
                position += value_size
            headers, position = (
                _read_headers(batch, data, position) if data[position] else ((), position + 1)
            )
            if position != end or end > limit or key_size < 0 or value_size < 0:
                raise malformed(batch, "sizes within a record contradict its length")
            if is_append_time:
                timestamp = batch.max_timestamp
            yield offset, timestamp, key, value, headers
    except IndexError:
        raise malformed(batch, "the last one is incomplete") from None
    if position != limit:
        raise malformed(batch, "bytes follow the last one")


def _read_headers(batch: RecordBatch, data: bytes, position: int) -> tuple[Headers, int]:
    """The headers at a position, and the position after them.

    A key that is not UTF-8 comes out with surrogate escapes, which the builder turns back into
    the same bytes: an unreadable header must not cost the record."""
    count, position = decode_varint(data, position)
    if not 0 <= count * _HEADER_BYTES_MIN <= len(data) - position:
        raise malformed(batch, f"a record claims {count} headers")
    headers = []
    for _ in range(count):
        size, position = decode_varint(data, position)
        if size < 0:
            raise malformed(batch, "a header has no key")
        key = data[position : position + size].decode("utf-8", "surrogateescape")
        position += size
        size, position = decode_varint(data, position)
        if size < -1:
            raise malformed(batch, "a header value has a negative size")
        value = None if size < 0 else data[position : position + size]
        position += max(size, 0)
        headers.append((key, value))
    return tuple(headers), position

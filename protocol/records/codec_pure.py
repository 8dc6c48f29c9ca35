"""The record codec in plain Python: the twin that is always there, and the one that is right.

Whatever the compiled twin does differently is a mistake of the compiled twin. HOT for clients that
have no other: most lengths and deltas come out of a table of ready varints. See codec.py.
"""

from __future__ import annotations

from itertools import accumulate, chain, count, repeat
from typing import TYPE_CHECKING, TypeVar

from ottla.protocol.records.batch import HEADER_BYTES, NO_TIMESTAMP
from ottla.protocol.records.columns import (
    COLUMN_BYTES_MAX,
    IN_PLACE_BYTES_MIN,
    Columns,
    check_range,
)
from ottla.protocol.records.record import Encoded, Record, scan
from ottla.protocol.records.varint import (
    INT64_MAX,
    INT64_MIN,
    SHORT_COUNT,
    SHORT_VARINTS,
    encode_varint,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.record import Entry, Headers

Row = TypeVar("Row", bound=tuple[object, ...])

_VALUE_KINDS = {bytes, type(None)}
_NO_ATTRIBUTES = b"\0"
_NO_HEADERS = b"\0"
_NULL = b"\x01"
_ROOM = bytes(HEADER_BYTES)


def value_ends(values: Sequence[object]) -> Sequence[int] | None:
    """Where each value would end if they lay back to back, and a 0 before them; None if there is
    one that is neither bytes, subclasses not counted, nor null, which has no bytes."""
    kinds = set(map(type, values))
    if not kinds <= _VALUE_KINDS:
        return None
    if type(None) in kinds:
        values = [value or b"" for value in values]
    return list(accumulate(map(len, values), initial=0))  # type: ignore[arg-type]


def encode_entries(entries: Sequence[Entry]) -> Encoded:
    """The records back to back behind room for a header; timestamps count from the first one's.

    Raises OverflowError for timestamps that do not fit 64 bits or lie further apart than that,
    TypeError for fields that are neither null nor bytes in one piece."""
    if not entries:
        return Encoded(bytearray(_ROOM), NO_TIMESTAMP, NO_TIMESTAMP, 0)
    short, short_count = SHORT_VARINTS, SHORT_COUNT
    base_timestamp = max_timestamp = _time(entries[0][0])
    offset_deltas = chain(short, map(encode_varint, count(short_count)))
    parts: list[Buffer] = [_ROOM]
    for offset_delta, (timestamp, key, value, headers) in zip(offset_deltas, entries, strict=False):
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        delta = timestamp - base_timestamp
        time_delta = (
            short[delta] if 0 <= delta < short_count else _time_delta(timestamp, base_timestamp)
        )
        if key is None and type(value) is bytes and not headers:
            # What most producers send, without the cost of the general case.
            size = len(value)
            value_size = short[size] if size < short_count else encode_varint(size)
            size += len(time_delta) + len(offset_delta) + len(value_size) + 3
            parts += (
                short[size] if size < short_count else encode_varint(size),
                _NO_ATTRIBUTES,
                time_delta,
                offset_delta,
                _NULL,
                value_size,
                value,
                _NO_HEADERS,
            )
            continue
        body: list[Buffer] = [_NO_ATTRIBUTES, time_delta, offset_delta]
        for field in (key, value):
            _add_field(body, field)
        body.append(_encode_headers(headers) if headers else _NO_HEADERS)
        size = sum(map(len, body))
        parts.append(short[size] if size < short_count else encode_varint(size))
        parts += body
    return Encoded(bytearray().join(parts), base_timestamp, _time(max_timestamp), len(entries))


def _time(timestamp: int) -> int:
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise OverflowError("a timestamp does not fit 64 bits")
    return timestamp


def _time_delta(timestamp: int, base_timestamp: int) -> bytes:
    delta = _time(timestamp) - base_timestamp
    if not INT64_MIN <= delta <= INT64_MAX:
        raise OverflowError("timestamps of one batch lie more than 64 bits apart")
    return encode_varint(delta)


def _add_field(parts: list[Buffer], field: Buffer | None) -> None:
    if field is None:
        parts.append(_NULL)
        return
    if type(field) is not bytes:
        # A view may be of larger items than bytes, and its length is then a number of those.
        field = memoryview(field).cast("B")
    parts += (encode_varint(len(field)), field)


def _encode_headers(headers: Headers) -> bytes:
    parts: list[Buffer] = [encode_varint(len(headers))]
    for key, value in headers:
        _add_field(parts, key.encode("utf-8", "surrogateescape"))
        _add_field(parts, value)
    return b"".join(parts)


def encode_values(values: Sequence[bytes | None], timestamp: int) -> Encoded:
    """Records of values alone, all of one timestamp. Raises as ``encode_entries`` does."""
    entries: list[Entry] = list(
        zip(repeat(timestamp), repeat(None), values, repeat(()), strict=False)
    )
    return encode_entries(entries)


def encode_columns(columns: Columns, start: int, stop: int) -> Encoded:
    """The records from one index up to another; their offsets do not matter.

    Raises ValueError where the buffers do not hold what they should, and else as
    ``encode_entries`` does."""
    check_range(columns, start, stop)
    headers = columns.headers
    if headers is not None and len(headers) < stop:
        raise ValueError(f"{len(headers)} lists of headers for {columns.count} records")
    entries: list[Entry] = list(
        zip(
            columns.timestamps_of(start, stop),
            columns.keys.fields(start, stop),
            columns.values.fields(start, stop),
            headers[start:stop] if headers is not None else repeat(()),
            strict=False,
        )
    )
    return encode_entries(entries)


def decode_records(batch: RecordBatch, data: Buffer) -> list[Record]:
    """All records of a batch from its ``record_bytes`` or its ``record_view``.

    Raises KafkaError(CORRUPT_MESSAGE) where records and header disagree."""
    new = tuple.__new__
    return [new(Record, row) for row in scan(batch, bytes(data))]


def decode_as(
    batch: RecordBatch, data: Buffer, cls: type[Row], prefix: tuple[object, ...], from_offset: int
) -> list[Row]:
    """The records at and after an offset, as ``cls(*prefix, offset, timestamp, key, value,
    headers)`` without a call of ``cls``, which is a named tuple of that many fields.

    Raises as ``decode_records`` does, for the records before the offset as well."""
    new = tuple.__new__
    return [new(cls, prefix + row) for row in scan(batch, bytes(data)) if row[0] >= from_offset]


def decode_values(batch: RecordBatch, data: Buffer) -> list[bytes | None]:
    """The values alone. Raises as ``decode_records`` does."""
    return [row[3] for row in scan(batch, bytes(data))]


def decode_columns(
    batch: RecordBatch, data: Buffer, column_bytes_max: int = COLUMN_BYTES_MAX
) -> Columns:
    """The records as columns. Raises as ``decode_records`` does, and ValueError for keys or
    values of more bytes than that in all."""
    return Columns.of(scan(batch, bytes(data)), column_bytes_max)


def decode_columns_in_place(
    batch: RecordBatch,
    data: Buffer,
    column_bytes_max: int = COLUMN_BYTES_MAX,
    in_place_bytes_min: int = IN_PLACE_BYTES_MIN,
) -> Columns:
    """As ``decode_columns``, for data that no caller needs afterwards.

    From that size on, and if the data can be written to, the compiled twin moves the values
    together in place, and the columns keep the data alive. Where it raises nothing has moved."""
    del in_place_bytes_min
    return decode_columns(batch, data, column_bytes_max)

"""Records as columns: every offset, every timestamp, every key and every value side by side.

The buffers are laid out as Apache Arrow lays out its own (numbers little-endian; byte strings back
to back behind a list of their ends; one bit per record that says what is not null), so that a
reader of Arrow takes them without a copy. Buffers may come from anywhere: what leads out of its
buffer raises ValueError and is never followed.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import TYPE_CHECKING, Self

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.record import Headers, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.record import Row

COLUMN_BYTES_MAX = 2**31 - 1
"""The ends of a column are 32-bit numbers."""

IN_PLACE_BYTES_MIN = 64 * 1024
"""Smaller batches are copied out: that is cheap, and the bytes around them need not be kept."""

_INT32_BYTES, _INT64_BYTES = 4, 8


def too_large(column_bytes_max: int) -> ValueError:
    """The error for a column whose ends would not fit, or that the caller wants smaller."""
    return ValueError(
        f"the keys or the values take more than {column_bytes_max} bytes: convert fewer records"
    )


class BytesColumn(NamedTuple):
    """``count`` byte strings, some of them null."""

    ends: Buffer
    """int32, ``count + 1`` of them: string i lies from number i to number i + 1 of ``data``."""
    data: Buffer
    validity: Buffer | None = None
    """Bit i % 8 of byte i // 8 is set if string i is not null; None if nothing is."""
    null_count: int = 0

    @classmethod
    def of(
        cls, fields: Sequence[bytes | None], column_bytes_max: int = COLUMN_BYTES_MAX
    ) -> BytesColumn:
        """Raises ValueError for more bytes than a column may have."""
        ends = list(accumulate((len(field) if field else 0 for field in fields), initial=0))
        if ends[-1] > min(column_bytes_max, COLUMN_BYTES_MAX):
            raise too_large(column_bytes_max)
        validity, null_count = None, 0
        if None in fields:
            bits = bytearray(_bitmap_bytes(len(fields)))
            for index, field in enumerate(fields):
                if field is None:
                    null_count += 1
                else:
                    bits[index >> 3] |= 1 << (index & 7)
            validity = bytes(bits)
        data = b"".join(field for field in fields if field)
        return cls(struct.pack(f"<{len(ends)}i", *ends), data, validity, null_count)

    @classmethod
    def nulls(cls, count: int) -> BytesColumn:
        """The column of keys where no record has one."""
        ends = bytes((count + 1) * _INT32_BYTES)
        return cls(ends, b"", bytes(_bitmap_bytes(count)) if count else None, count)

    def fields(self, start: int, stop: int) -> list[memoryview | None]:
        """The strings from one index up to another, without a copy. Raises ValueError where the
        buffers do not hold them."""
        ends = _numbers("i", self.ends, start, stop - start + 1)
        data = memoryview(self.data).cast("B")
        found: list[memoryview | None] = [None] * (stop - start)
        present = _present(self.validity, start, stop)
        for index in range(stop - start):
            if present >> index & 1:
                if not 0 <= ends[index] <= ends[index + 1] <= len(data):
                    raise ValueError(f"field {start + index} of a column lies outside its data")
                found[index] = data[ends[index] : ends[index + 1]]
        return found

    def slice(self, start: int, stop: int) -> BytesColumn:
        """The strings from one index up to another; ``data`` stays whole."""
        ends = _part(self.ends, start * _INT32_BYTES, (stop + 1) * _INT32_BYTES)
        if self.validity is None:
            return BytesColumn(ends, self.data)
        count = stop - start
        present = _present(self.validity, start, stop)
        if present.bit_count() == count:
            return BytesColumn(ends, self.data)
        validity = present.to_bytes(_bitmap_bytes(count), "little")
        return BytesColumn(ends, self.data, validity, count - present.bit_count())


class Columns:
    """The records of one batch or of several, as columns in Arrow's layout.

    Two objects are equal if they have the same records.

    Args:
        count: The number of records.
        offsets: The offsets, as little-endian int64.
        timestamps: The timestamps in milliseconds since 1970, as little-endian int64.
        keys: The keys.
        values: The values.
        headers: The headers of each record; None (default) if no record has any.
    """

    __slots__ = ("count", "headers", "keys", "offsets", "timestamps", "values")

    def __init__(
        self,
        count: int,
        offsets: Buffer,
        timestamps: Buffer,
        keys: BytesColumn,
        values: BytesColumn,
        headers: list[Headers] | None = None,
    ) -> None:
        """Keep the buffers; they are checked when they are used."""
        self.count = count
        self.offsets = offsets
        self.timestamps = timestamps
        self.keys = keys
        self.values = values
        self.headers = headers

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"Columns({self.count} records)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Columns):
            return NotImplemented
        return self.records() == other.records()

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, records: Iterable[Row], column_bytes_max: int = COLUMN_BYTES_MAX) -> Self:
        """Create columns from records, or from plain tuples of their five fields.

        Args:
            records: The records.
            column_bytes_max: The limit of the keys and of the values, in bytes (default 2 GiB - 1).

        Raises:
            ValueError: The keys or the values are larger than the limit.
        """
        rows = list(records)
        offsets, timestamps, keys, values, headers = (
            zip(*rows, strict=True) if rows else ((), (), (), (), ())
        )
        return cls(
            len(rows),
            struct.pack(f"<{len(rows)}q", *offsets),
            struct.pack(f"<{len(rows)}q", *timestamps),
            BytesColumn.of(keys, column_bytes_max),
            BytesColumn.of(values, column_bytes_max),
            list(headers) if any(headers) else None,
        )

    def records(self) -> list[Record]:
        """Return the records. Raises ValueError if the buffers are too short."""
        count = self.count
        fields = (
            _numbers("q", self.offsets, 0, count),
            _numbers("q", self.timestamps, 0, count),
            map(_to_bytes, self.keys.fields(0, count)),
            map(_to_bytes, self.values.fields(0, count)),
            self.headers if self.headers is not None else [()] * count,
        )
        return [Record(*row) for row in zip(*fields, strict=True)]

    def slice(self, start: int, stop: int) -> Columns:
        """Return the records from one index up to another, in the same memory.

        Args:
            start: The index of the first record.
            stop: The index after the last record.

        Raises:
            ValueError: The indexes are not in order within 0 and ``count``.
        """
        check_range(self, start, stop)
        return Columns(
            stop - start,
            _part(self.offsets, start * _INT64_BYTES, stop * _INT64_BYTES),
            _part(self.timestamps, start * _INT64_BYTES, stop * _INT64_BYTES),
            self.keys.slice(start, stop),
            self.values.slice(start, stop),
            self.headers[start:stop] if self.headers is not None else None,
        )

    def timestamps_of(self, start: int, stop: int) -> tuple[int, ...]:
        """Return the timestamps from one index up to another.

        Args:
            start: The index of the first record.
            stop: The index after the last record.

        Raises:
            ValueError: The buffer is too short.
        """
        return _numbers("q", self.timestamps, start, stop - start)


def check_range(columns: Columns, start: int, stop: int) -> None:
    """Raises ValueError unless both indexes lie in order within 0 and the count."""
    if not 0 <= start <= stop <= columns.count:
        raise ValueError(f"records {start} to {stop} of {columns.count}")


def concat(parts: Sequence[Columns]) -> Columns:
    """The records of all parts, one after the other, in new memory. Raises ValueError when one
    column would have more bytes than a column may have."""
    headers: list[Headers] | None = None
    if any(part.headers is not None for part in parts):
        headers = []
        for part in parts:
            headers += part.headers if part.headers is not None else [()] * part.count
    return Columns(
        sum(part.count for part in parts),
        b"".join(_part(part.offsets, 0, part.count * _INT64_BYTES) for part in parts),
        b"".join(_part(part.timestamps, 0, part.count * _INT64_BYTES) for part in parts),
        _concat_bytes([(part.keys, part.count) for part in parts]),
        _concat_bytes([(part.values, part.count) for part in parts]),
        headers,
    )


def _concat_bytes(parts: list[tuple[BytesColumn, int]]) -> BytesColumn:
    ends, data, present, total, size_bytes = [0], [], 0, 0, 0
    for column, count in parts:
        own = _numbers("i", column.ends, 0, count + 1)
        size_bytes += own[-1] - own[0]
        if size_bytes > COLUMN_BYTES_MAX:
            raise too_large(COLUMN_BYTES_MAX)
        shift = ends[-1] - own[0]
        ends += [end + shift for end in own[1:]]
        data.append(_part(column.data, own[0], own[-1]))
        present |= _present(column.validity, 0, count) << total
        total += count
    null_count = total - present.bit_count()
    validity = present.to_bytes(_bitmap_bytes(total), "little") if null_count else None
    return BytesColumn(struct.pack(f"<{len(ends)}i", *ends), b"".join(data), validity, null_count)


def _bitmap_bytes(count: int) -> int:
    return (count + 7) >> 3


def _present(validity: Buffer | None, start: int, stop: int) -> int:
    """Bit i is set if string ``start + i`` is not null."""
    if validity is None:
        return (1 << (stop - start)) - 1
    first = start >> 3
    octets = _part(validity, first, _bitmap_bytes(stop))
    return int.from_bytes(octets, "little") >> (start & 7) & ((1 << (stop - start)) - 1)


def _numbers(kind: str, buffer: Buffer, start: int, count: int) -> tuple[int, ...]:
    form = f"<{count}{kind}"
    width = struct.calcsize(f"<{kind}")
    return struct.unpack(form, _part(buffer, start * width, (start + count) * width))


def _part(buffer: Buffer, start: int, stop: int) -> memoryview:
    view = memoryview(buffer).cast("B")
    if not 0 <= start <= stop <= len(view):
        raise ValueError(f"bytes {start} to {stop} of a column's buffer of {len(view)} bytes")
    return view[start:stop]


def _to_bytes(field: memoryview | None) -> bytes | None:
    return None if field is None else bytes(field)

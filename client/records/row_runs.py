"""Holds values or columns that are sent at once, and splits them into batches. Pure.

They keep their form until their batch is encoded; no record becomes an object of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Protocol

from ottla.client.records.producer_record import (
    RECORD_OVERHEAD_BYTES,
    headers_size_bytes,
    item_size_bytes,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.codec import (
    encode_columns,
    encode_entries,
    encode_values,
    value_ends,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.records.producer_record import Item
    from ottla.protocol.records.columns import Columns
    from ottla.protocol.records.record import Encoded

# The most by which the sizes below may be too low for one record: offset delta and three sizes of
# one byte more each; a timestamp delta of ten bytes instead of two; as much as all sizes for
# headers.
SIZES_EXCESS_BYTES = 4
TIME_EXCESS_BYTES = 8
HEADERS_EXCESS_BYTES = 4


class Rows(Protocol):
    """Records of one partition, in order. Sizes are approximate and uncompressed."""

    @property
    def count(self) -> int: ...

    @property
    def excess_bytes(self) -> int:
        """The most by which ``size_bytes`` may be too low, for each record."""

    def size_bytes(self, start: int, stop: int) -> int:
        """The size of the records from ``start`` up to ``stop``."""

    def timestamp(self, index: int) -> int:
        """The timestamp of one record, in ms since 1970."""

    def items(self, start: int, stop: int) -> list[Item]:
        """The records one by one, for a batch that holds others as well."""

    def encode(self, start: int, stop: int) -> Encoded:
        """The encoded records, for a batch of their own."""


class RowRun(NamedTuple):
    """The part of some rows that one batch holds."""

    rows: Rows
    start: int
    stop: int

    @property
    def record_count(self) -> int:
        return self.stop - self.start

    @property
    def size_bytes(self) -> int:
        return self.rows.size_bytes(self.start, self.stop)

    def items(self) -> list[Item]:
        return self.rows.items(self.start, self.stop)

    def encode(self) -> Encoded:
        return self.rows.encode(self.start, self.stop)


def part_within(rows: Rows, start: int, limit_bytes: int) -> RowRun:
    """As many records from ``start`` on as certainly fit into ``limit_bytes``, at least one."""
    assert start < rows.count
    excess_bytes = rows.excess_bytes

    def most_bytes(stop: int) -> int:
        return rows.size_bytes(start, stop) + (stop - start) * excess_bytes

    all_bytes = most_bytes(rows.count)
    if all_bytes <= limit_bytes:
        return RowRun(rows, start, rows.count)
    # If all records have the same size, this guess is exact.
    guess = start + (rows.count - start) * limit_bytes // all_bytes
    if guess > start and most_bytes(guess) <= limit_bytes < most_bytes(guess + 1):
        return RowRun(rows, start, guess)
    fitting = bisect_right(range(start + 1, rows.count + 1), limit_bytes, key=most_bytes)
    return RowRun(rows, start, start + max(1, fitting))


class ValueRows:
    """Values without keys, all with one timestamp."""

    __slots__ = ("_ends", "_timestamp", "_values")
    excess_bytes = SIZES_EXCESS_BYTES

    def __init__(self, values: Sequence[bytes | None], timestamp: int) -> None:
        """Keep the values without a copy. Raises TypeError unless each is bytes or None."""
        ends = value_ends(values)
        if ends is None:
            raise TypeError("values are bytes or None")
        self._values = values
        self._timestamp = timestamp
        self._ends = ends

    @property
    def count(self) -> int:
        return len(self._values)

    def size_bytes(self, start: int, stop: int) -> int:
        return self._ends[stop] - self._ends[start] + (stop - start) * RECORD_OVERHEAD_BYTES

    def timestamp(self, index: int) -> int:
        return self._timestamp

    def items(self, start: int, stop: int) -> list[Item]:
        # Plain tuples made in C: named tuples would cost more than everything else here.
        values = self._values[start:stop]
        return list(zip(repeat(self._timestamp), repeat(None), values, repeat(())))

    def encode(self, start: int, stop: int) -> Encoded:
        values = self._values
        if stop - start < len(values):
            values = values[start:stop]
        return encode_values(values, self._timestamp)


class ItemRows:
    """Single records, for example those selected from columns by key."""

    __slots__ = ("_ends", "_items")
    excess_bytes = SIZES_EXCESS_BYTES + TIME_EXCESS_BYTES + HEADERS_EXCESS_BYTES

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        self._ends = [0, *accumulate(map(item_size_bytes, items))]

    @property
    def count(self) -> int:
        return len(self._items)

    def size_bytes(self, start: int, stop: int) -> int:
        return self._ends[stop] - self._ends[start]

    def timestamp(self, index: int) -> int:
        return self._items[index][0]

    def items(self, start: int, stop: int) -> list[Item]:
        return self._items[start:stop]

    def encode(self, start: int, stop: int) -> Encoded:
        return encode_entries(self._items[start:stop])


class ColumnRows:
    """Columns of keys, values, timestamps and headers; their offsets are ignored."""

    __slots__ = ("_columns", "_header_ends", "_key_ends", "_value_ends", "excess_bytes")

    def __init__(self, columns: Columns, *, has_one_timestamp: bool = False) -> None:
        """With ``has_one_timestamp`` a batch may hold a few more records."""
        self._columns = columns
        self.excess_bytes = SIZES_EXCESS_BYTES
        if not has_one_timestamp:
            self.excess_bytes += TIME_EXCESS_BYTES
        self._key_ends = memoryview(columns.keys.ends).cast("B").cast("i")
        self._value_ends = memoryview(columns.values.ends).cast("B").cast("i")
        self._header_ends: list[int] | None = None
        if columns.headers is not None:
            self._header_ends = [0, *accumulate(map(headers_size_bytes, columns.headers))]
            self.excess_bytes += HEADERS_EXCESS_BYTES

    @property
    def count(self) -> int:
        return self._columns.count

    def size_bytes(self, start: int, stop: int) -> int:
        size_bytes = (stop - start) * RECORD_OVERHEAD_BYTES
        for ends in (self._key_ends, self._value_ends, self._header_ends):
            if ends is not None:
                size_bytes += ends[stop] - ends[start]
        return size_bytes

    def timestamp(self, index: int) -> int:
        (found,) = self._columns.timestamps_of(index, index + 1)
        return found

    def items(self, start: int, stop: int) -> list[Item]:
        return [record[1:] for record in self._columns.slice(start, stop).records()]

    def encode(self, start: int, stop: int) -> Encoded:
        return encode_columns(self._columns, start, stop)

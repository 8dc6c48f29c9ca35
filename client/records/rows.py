"""Divides what an application sends in one call into the rows of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from ottla.client.records.arrow import batches_of, columns_of, keys_of, movable, partitions_of
from ottla.client.records.record_checks import as_bytes
from ottla.client.records.row_runs import ColumnRows, ItemRows, Rows, ValueRows
from ottla.protocol.records.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from ottla.client.records.producer_record import Item

    # Returns None if the key does not decide.
    PartitionOfKey = Callable[[bytes], int | None]
    # None stands for any partition.
    Divided = Iterable[tuple[int | None, Rows]]


class ArrowStream(Protocol):
    """Anything with the Arrow PyCapsule interface, such as tables of all dataframe libraries."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class ArrowArray(Protocol):
    """The same for a single record batch."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


Records = Sequence[bytes | None] | Columns | ArrowStream | ArrowArray


class Divider:
    """Divides the records of one call; an explicit partition takes precedence over keys."""

    __slots__ = ("_partition", "_partition_of_key", "_wall_ms")

    def __init__(
        self, partition: int | None, partition_of_key: PartitionOfKey, wall_ms: int
    ) -> None:
        self._partition = partition
        self._partition_of_key = partition_of_key
        self._wall_ms = wall_ms

    def divide(self, records: Records, key: bytes | None) -> Divided:
        """The records by partition, in order. Raises TypeError for unsupported types."""
        if isinstance(records, Columns):
            _refuse_key(key)
            return self._by_key(records)
        if isinstance(records, Sequence):
            return self._values(records, key)
        _refuse_key(key)
        return self._arrow(records)

    def _values(self, values: Sequence[bytes | None], key: bytes | None) -> Divided:
        if isinstance(values, str | bytes | bytearray | memoryview):
            raise TypeError("records are a sequence of values; for a single one there is send()")
        # Copied: batches are sent after the call returned, and the caller may change the list.
        values = list(values)
        # The caller may change a mutable key, too.
        key = as_bytes(key)
        if key is None:
            try:
                rows = ValueRows(values, self._wall_ms)
            except TypeError:
                rows = ValueRows([as_bytes(value) for value in values], self._wall_ms)
            return [(self._partition, rows)]
        partition = self._partition
        if partition is None:
            partition = self._partition_of_key(key)
        items: list[Item] = [(self._wall_ms, key, as_bytes(value), ()) for value in values]
        return [(partition, ItemRows(items))]

    def _arrow(self, records: object) -> Iterator[tuple[int | None, Rows]]:
        for batch in batches_of(records):
            wanted = self._partitions_of(batch) if self._partition is None else None
            if wanted is None:
                yield self._partition, self._rows_of(batch)
            else:
                rows = movable(batch)
                for partition, chosen in _grouped(wanted):
                    yield partition, self._rows_of(rows.take(chosen))

    def _rows_of(self, batch: pa.RecordBatch) -> ColumnRows:
        has_one = "timestamp" not in batch.schema.names
        return ColumnRows(columns_of(batch, self._wall_ms), has_one_timestamp=has_one)

    def _partitions_of(self, batch: pa.RecordBatch) -> list[int | None] | None:
        """The partition of each row, by its column or else its key; None if no row has either."""
        wanted = partitions_of(batch)
        keys = keys_of(batch)
        if keys is None:
            return wanted
        of_key = cache(self._partition_of_key)
        by_key = [None if key is None else of_key(key) for key in keys]
        if wanted is None:
            return by_key
        return [theirs if own is None else own for own, theirs in zip(wanted, by_key, strict=True)]

    def _by_key(self, columns: Columns) -> Divided:
        if self._partition is not None or columns.keys.null_count == columns.count:
            return [(self._partition, ColumnRows(columns))]
        found: dict[int | None, list[Item]] = {}
        of_key = cache(self._partition_of_key)
        for _, timestamp, key, value, headers in columns.records():
            partition = None if key is None else of_key(key)
            found.setdefault(partition, []).append((timestamp, key, value, headers))
        return [(partition, ItemRows(items)) for partition, items in found.items()]


def _grouped(wanted: list[int | None]) -> list[tuple[int | None, list[int]]]:
    """The row indexes of each partition."""
    found: dict[int | None, list[int]] = {}
    for index, partition in enumerate(wanted):
        found.setdefault(partition, []).append(index)
    return list(found.items())


def _refuse_key(key: bytes | None) -> None:
    if key is not None:
        raise TypeError("columns bring their own keys; key= is for a sequence of values")

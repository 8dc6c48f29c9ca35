"""The records of a stored or fetched batch, and how offsets change when they are restored. Pure."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ottla.client.fetching.batches import FetchedBatch
from ottla.client.settings.config import ConsumerConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.columns import Columns

# One batch may decompress to this size.
CONFIG = ConsumerConfig(batch_bytes_max=1024 * 1024 * 1024)


def columns_of(where: TopicPartition, batch: RecordBatch, first: int, end: int) -> Columns:
    """The batch's records with offsets from ``first`` to before ``end``. Raises RequestRefused."""
    columns = FetchedBatch(where, batch, first, CONFIG).columns()
    if batch.next_offset > end:
        return columns.slice(0, bisect_left(offsets_in(columns), end))
    return columns


def offsets_in(columns: Columns) -> memoryview:
    """The offsets of the records."""
    return memoryview(columns.offsets).cast("B").cast("q")


class OffsetTranslation:
    """Where offsets of one partition are after a restore, while its records pass in order.

    Restored records follow one another without gaps from ``start`` on, so the place of an offset is
    the number of records before it."""

    def __init__(self, start: int, wanted: Iterable[int]) -> None:
        self._next = start
        self._wanted = sorted(set(wanted), reverse=True)
        self.found: dict[int, int] = {}

    def take(self, columns: Columns) -> None:
        """Pass records."""
        offsets = offsets_in(columns)
        while self._wanted and columns.count and self._wanted[-1] <= offsets[columns.count - 1]:
            offset = self._wanted.pop()
            self.found[offset] = self._next + bisect_left(offsets, offset)
        self._next += columns.count

    def end(self) -> int:
        """The offset after the last record; every wanted offset is found now."""
        self.found.update(dict.fromkeys(self._wanted, self._next))
        self._wanted.clear()
        return self._next

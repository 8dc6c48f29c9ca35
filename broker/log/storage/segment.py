"""One segment of a log: its data file and its sparse indexes.

Only the active segment of a log is appended to. An idle segment holds no open file and no loaded
index; both are opened again at the next use. An entry of an index from the disk is compared with
the batch that it leads to before it is used (hazard S-04). Lookups are in slices.py. HOT:
``append``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.lent_file import LentFile, watch
from ottla.broker.log.storage.names import (
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    join,
    segment_name,
)
from ottla.broker.log.storage.scan import BatchScan, find_offset, max_timestamp_at
from ottla.broker.log.storage.segment_indexes import SegmentIndexes
from ottla.broker.log.storage.txn_index import TxnIndex
from ottla.protocol.errors import CorruptLogError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.log.storage.directory_services import LogDirectoryServices
    from ottla.protocol.records.batch import RecordBatch

NO_TIMESTAMP = -1
# Remembered batch starts: enough for the readers of one segment, cheap for idle ones.
STARTS_MIN = 64
# With so many the oldest ones go, down to the least: one by one would cost each append a search.
STARTS_MAX = 84


class Segment:
    """Owned by one PartitionLog. Positions are bytes in the data file, all below 2 GiB."""

    __slots__ = (
        "_file",
        "_home",
        "_lent",
        "base_offset",
        "created_ms",
        "directory",
        "first_timestamp",
        "index_interval_bytes",
        "indexes",
        "is_active",
        "is_used",
        "jitter_ms",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "size_bytes",
        "starts",
        "synced_bytes",
        "transactions",
        "unindexed_bytes",
    )

    def __init__(
        self,
        home: LogDirectoryServices,
        directory: str,
        base_offset: int,
        index_interval_bytes: int,
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        # For a loaded segment that is not the last: the base offset of the next one.
        self.next_offset = base_offset
        self.size_bytes = 0
        self.synced_bytes = 0
        self.is_active = False
        self.is_used = True
        self.created_ms = 0.0
        self.jitter_ms = 0
        self.first_timestamp: int | None = None
        # None until it is needed, if the segment was loaded without a scan.
        self.max_timestamp: int | None = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.indexes = SegmentIndexes(home.disk, directory, base_offset)
        self.transactions = TxnIndex(home.disk, self.path_of(TXN_INDEX))
        self._home = home
        self.index_interval_bytes = index_interval_bytes
        self.unindexed_bytes = 0
        self._file: LentFile | None = None
        # Closed here, but a reply may still be sent from them.
        self._lent: list[Callable[[], bool]] = []
        # Offset -> position of the first batch that reaches it; the end of the file counts.
        self.starts: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size_bytes} bytes, next offset {self.next_offset})"

    @property
    def path(self) -> str:
        return self.path_of(LOG)

    def path_of(self, suffix: str) -> str:
        """The path of the segment's file with that suffix."""
        return join(self.directory, segment_name(self.base_offset, suffix))

    @property
    def file(self) -> LentFile:
        """The data file, opened on demand. Raises OSError."""
        file = self._file
        if file is None:
            file = self._file = LentFile(self._home.disk.open(self.path))
            self._home.open_segments.opened(self)
        return file

    # -- writing -----------------------------------------------------------------------------

    def create(self) -> None:
        """Create the files of an empty segment; existing ones are emptied."""
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
            file = self._home.disk.open(self.path_of(suffix), create=True)
            if file.size_bytes:
                file.truncate(0)

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Write the batches in one call, then account for them. Raises OSError before that."""
        first = batches[0]
        if len(batches) > 1:
            views = _views_of(batches)
        else:
            # A produced batch is its whole buffer, and is spared the call.
            buffer = first.buffer
            views = [buffer if first.size_bytes == len(buffer) else first.view]
        (self._file or self.file).append(views)
        position = self.size_bytes
        for batch in batches:
            self.account(batch, position)
            position += batch.size_bytes
        self.size_bytes = position
        self.is_used = True
        starts = self.starts
        starts[self.next_offset] = position
        if len(starts) > STARTS_MAX:
            _drop_oldest(starts)

    def remember(self, offset: int, position: int) -> None:
        """Remember where the first batch that reaches ``offset`` starts; drop the oldest."""
        starts = self.starts
        starts[offset] = position
        if len(starts) > STARTS_MAX:
            _drop_oldest(starts)

    def account(self, batch: RecordBatch, position: int) -> None:
        """Add the batch at that position to the indexes and maxima.

        Entries are added by Kafka's rule, so that its tools accept the indexes."""
        last_offset = batch.base_offset + batch.last_offset_delta
        timestamp = batch.max_timestamp
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:  # type: ignore[operator]  # known while appending
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self.unindexed_bytes > self.index_interval_bytes:
            assert self.max_timestamp is not None
            self.indexes.offsets_or_raise.append(last_offset - self.base_offset, position)
            if self.max_timestamp >= 0:
                relative_offset = self.max_timestamp_offset - self.base_offset
                self.indexes.times_or_raise.append(self.max_timestamp, relative_offset)
            self.unindexed_bytes = batch.size_bytes
        else:
            self.unindexed_bytes += batch.size_bytes
        self.next_offset = last_offset + 1

    def seal(self) -> None:
        """End appends: close the time index with the segment's largest timestamp."""
        self.is_active = False
        self._close_time_index()

    def cut(self, size_bytes: int, next_offset: int) -> None:
        """End the segment for readers at that batch boundary; the caller cuts the file later."""
        self.size_bytes = size_bytes
        self.next_offset = next_offset
        self.synced_bytes = min(self.synced_bytes, size_bytes)
        self.starts.clear()

    # -- indexes -----------------------------------------------------------------------------

    def load_indexes(self) -> SegmentIndexes:
        """The indexes, loaded or rebuilt on demand. Raises CorruptLogError, OSError."""
        indexes = self.indexes
        if indexes.offsets is None and not indexes.load(
            self.size_bytes, is_sealed=not self.is_active
        ):
            self.rebuild_indexes()
        return indexes

    def rebuild_indexes(self) -> None:
        """Build both indexes and the maxima from the data file. Raises CorruptLogError."""
        scan = BatchScan(self.file, 0, self.size_bytes)
        next_offset = self.next_offset
        self.start_scan()
        for position, batch in scan:
            self.account(batch, position)
        self.next_offset = max(next_offset, self.next_offset)
        if scan.problem is not None:
            raise CorruptLogError(f"{self.path} at position {scan.position}: {scan.problem}")
        if not self.is_active:
            self._close_time_index()
            self.indexes.write()

    def start_scan(self) -> None:
        """Reset indexes and maxima; the caller accounts for all batches again."""
        self.indexes.clear()
        self.first_timestamp = None
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.unindexed_bytes = 0
        self.starts.clear()

    def largest_timestamp(self) -> int:
        """The largest timestamp of the segment's batches, -1 if none has any."""
        if self.max_timestamp is None and self.indexes.offsets is None:
            last = self.indexes.peek_last(self.size_bytes)
            if last is not None and self._has_maximum(*last):
                self.max_timestamp = last[0]
                self.max_timestamp_offset = self.base_offset + last[1]
        if self.max_timestamp is None:
            self.load_indexes()
        if self.max_timestamp is None:
            self.take_maximum()
        assert self.max_timestamp is not None
        return self.max_timestamp

    def take_maximum(self) -> None:
        """Take the largest timestamp from the last entry of the loaded time index."""
        times = self.indexes.times_or_raise
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        if not self.is_maximum_sound():
            self.rebuild_indexes()
        elif times:
            self.max_timestamp = times.timestamps[-1]
            self.max_timestamp_offset = self.base_offset + times.offsets[-1]

    def is_maximum_sound(self) -> bool:
        """Whether the last time entry, if it comes from the disk, matches its batch."""
        times = self.indexes.times
        if not times or self.indexes.is_trusted:
            return True
        relative_offset = times.offsets[-1]
        position = self.indexes.offsets_or_raise.floor(relative_offset)
        return self._has_maximum(times.timestamps[-1], relative_offset, position)

    def _has_maximum(self, timestamp: int, relative_offset: int, position: int) -> bool:
        """Whether the batch that ends with the offset has that timestamp."""
        offset = self.base_offset + relative_offset
        try:
            place = find_offset(self.file, position, self.size_bytes, offset)
        except CorruptLogError:
            return False
        if place is None or place.last_offset != offset:
            return False
        return max_timestamp_at(self.file, place.position) == timestamp

    def _close_time_index(self) -> None:
        times = self.load_indexes().times_or_raise
        largest = self.largest_timestamp()
        if largest >= 0:
            times.append(largest, self.max_timestamp_offset - self.base_offset)

    # -- files -------------------------------------------------------------------------------

    def release(self) -> bool:
        """Close the data file and forget the indexes; False while something is not written.

        The writing descriptor stays open until its fsync: only it reports a failed write-back
        (hazard S-09)."""
        if self.synced_bytes < self.size_bytes or not self.indexes.is_written:
            return False
        self._close()
        self.starts.clear()
        if not self.is_active:
            self.indexes.forget()
        return True

    def give_back_blocks(self) -> None:
        """After the last append, release the blocks that the disk has reserved behind the end.

        Raises OSError. Not for copies of a segment: they may know less than the file has."""
        if self._file is not None and self._file.size_bytes == self.size_bytes:
            self._file.truncate(self.size_bytes)

    def detach(self) -> Callable[[], bool]:
        """Close the data file; returns a check whether a reader still holds it.

        The file object is the token: pending replies keep it alive, and later reads open another
        one."""
        self.close_file()
        lent, self._lent = self._lent, []
        return lambda: any(is_held() for is_held in lent)

    def close_file(self) -> None:
        """Close the data file; the next use opens it again."""
        self._home.open_segments.closed(self)
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._lent.append(watch(file))
            del file
            self._lent = [is_held for is_held in self._lent if is_held()]


def _drop_oldest(starts: dict[int, int]) -> None:
    for offset in list(starts)[: len(starts) - STARTS_MIN]:
        del starts[offset]


def _views_of(batches: Sequence[RecordBatch]) -> list[memoryview]:
    """The buffers to write: a single one if the batches are adjacent, as after a fetch."""
    buffer = batches[0].buffer
    start = position = batches[0].position
    for batch in batches:
        if batch.buffer is not buffer or batch.position != position:
            return [batch.view for batch in batches]
        position += batch.size_bytes
    return [buffer[start:position]]

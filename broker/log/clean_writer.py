"""Writes the segment that replaces others in a compaction, and its indexes.

The file names are harmless after a crash: they end with Kafka's ``.cleaned``, which a start
removes, and differ from those of a truncation that copies a segment at the same time. Nothing is
flushed here; clean_swap.py makes the files durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.index import OffsetIndex, TimeIndex
from ottla.broker.log.storage.names import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    join,
    segment_name,
)
from ottla.broker.log.storage.scan import parse_entry
from ottla.broker.log.storage.settings import INT32_MAX
from ottla.broker.log.storage.txn_index import AbortedTransaction, encode_aborted
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ports import Buffer, Disk, File

PASS_MARK = ".pass" + CLEANED
# Bytes gathered for one write.
_WRITE_BYTES = 256 * 1024


class CleanedFiles(NamedTuple):
    """A written segment; ``suffixes`` of its files, the log's last."""

    base_offset: int
    next_offset: int
    size_bytes: int
    suffixes: tuple[str, ...]


def pass_path(directory: str, base_offset: int, suffix: str) -> str:
    """The path of a file of that kind until it is swapped in."""
    return join(directory, segment_name(base_offset, suffix + PASS_MARK))


class CleanedSegment:
    """One segment being written; complete after ``finish``."""

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, index_interval_bytes: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._interval_bytes = index_interval_bytes
        self._offsets = OffsetIndex()
        self._times = TimeIndex()
        self._unindexed_bytes = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self._next_offset = base_offset
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0
        self._file = self._fresh(LOG)
        self.size_bytes = 0

    def _fresh(self, suffix: str) -> File:
        path = pass_path(self._directory, self._base_offset, suffix)
        file = self._disk.open(path, create=True)
        if file.size_bytes:
            file.truncate(0)
        return file

    def append(self, content: Buffer) -> None:
        """Append a batch. Raises OSError; CorruptLogError if its offset or size does not fit."""
        batch = parse_entry(content)
        position = self.size_bytes
        if batch.base_offset < self._next_offset:
            raise CorruptLogError(
                f"offset {batch.base_offset} comes after {self._next_offset - 1} in "
                f"{self._directory}"
            )
        if position + batch.size_bytes > INT32_MAX:
            raise CorruptLogError(f"a cleaned segment of {self._directory} exceeds two gigabytes")
        last_offset = batch.last_offset
        if batch.max_timestamp > self._max_timestamp:
            self._max_timestamp = batch.max_timestamp
            self._max_timestamp_offset = last_offset
        # The same rule as in Segment.account.
        if self._unindexed_bytes > self._interval_bytes:
            self._offsets.append(last_offset - self._base_offset, position)
            self._note_time()
            self._unindexed_bytes = batch.size_bytes
        else:
            self._unindexed_bytes += batch.size_bytes
        self._next_offset = last_offset + 1
        self.size_bytes = position + batch.size_bytes
        self._waiting.append(content)
        self._waiting_bytes += batch.size_bytes
        if self._waiting_bytes >= _WRITE_BYTES:
            self.flush()

    def _note_time(self) -> None:
        if self._max_timestamp >= 0:
            self._times.append(self._max_timestamp, self._max_timestamp_offset - self._base_offset)

    def flush(self) -> None:
        """Write the pending batches, which frees their buffers. Raises OSError."""
        if self._waiting:
            self._file.append(self._waiting)
            self._waiting = []
            self._waiting_bytes = 0

    def finish(self, rows: Iterable[AbortedTransaction]) -> CleanedFiles:
        """Write the pending batches and the indexes; ``rows`` go to the transaction index."""
        self.flush()
        self._note_time()
        self._fresh(OFFSET_INDEX).append([self._offsets.encode()])
        self._fresh(TIME_INDEX).append([self._times.encode()])
        suffixes = [OFFSET_INDEX, TIME_INDEX]
        content = b"".join(map(encode_aborted, rows))
        if content:
            self._fresh(TXN_INDEX).append([content])
            suffixes.append(TXN_INDEX)
        return CleanedFiles(self._base_offset, self._next_offset, self.size_bytes, (*suffixes, LOG))

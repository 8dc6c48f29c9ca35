"""The index files of one segment: loaded on demand, verified before use, written in batches.

An index is a cache of the data file. On disk it may lag behind, and it may be deleted at any time
(hazard S-04).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.checkpoints import read_file
from ottla.broker.log.storage.health import is_out_of_space
from ottla.broker.log.storage.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    OffsetIndex,
    TimeIndex,
)
from ottla.broker.log.storage.names import OFFSET_INDEX, TIME_INDEX, join, segment_name

if TYPE_CHECKING:
    from ottla.protocol.ports import Disk, File

# A log may be this large without any entry (one batch); a larger one has lost its entries.
UNINDEXED_LOG_BYTES_MAX = 4 * 1024 * 1024


class SegmentIndexes:
    """Owned by one Segment; both indexes are loaded together or not at all."""

    __slots__ = ("_directory", "_disk", "base_offset", "is_trusted", "offsets", "times")

    def __init__(self, disk: Disk, directory: str, base_offset: int) -> None:
        self._disk = disk
        self._directory = directory
        self.base_offset = base_offset
        self.offsets: OffsetIndex | None = OffsetIndex()
        self.times: TimeIndex | None = TimeIndex()
        # False while the entries come from the disk: each is checked against its batch before use.
        self.is_trusted = True

    def move_to(self, directory: str) -> None:
        """Set the new path of the directory."""
        self._directory = directory

    def path_of(self, suffix: str) -> str:
        return join(self._directory, segment_name(self.base_offset, suffix))

    @property
    def offsets_or_raise(self) -> OffsetIndex:
        """The loaded offset index; asserts that it is loaded."""
        assert self.offsets is not None
        return self.offsets

    @property
    def times_or_raise(self) -> TimeIndex:
        """The loaded time index; asserts that it is loaded."""
        assert self.times is not None
        return self.times

    def clear(self) -> None:
        """Start with empty indexes, to be filled by a scan."""
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        self.is_trusted = True

    def load(self, log_bytes: int, *, is_sealed: bool) -> bool:
        """Read both files; False when they are missing, corrupt or incomplete.

        Raises OSError."""
        offsets_content = read_file(self._disk, self.path_of(OFFSET_INDEX))
        times_content = read_file(self._disk, self.path_of(TIME_INDEX))
        if offsets_content is None or times_content is None:
            return False
        offsets = OffsetIndex.decode(offsets_content, log_bytes)
        times = TimeIndex.decode(times_content)
        if offsets is None or times is None:
            return False
        # The active segment's indexes are appended to and then trusted, so they are checked as a
        # whole. For the others, which a consumer's read may load, each entry is checked at its use.
        if not is_sealed and not (offsets.is_ascending and times.is_ascending):
            return False
        if not offsets and log_bytes > UNINDEXED_LOG_BYTES_MAX:
            return False
        # Each offset entry comes with a time entry, and sealing adds a final one.
        if not times and log_bytes and (offsets or is_sealed):
            return False
        self.offsets, self.times = offsets, times
        self.is_trusted = False
        return True

    @property
    def is_rebuilt(self) -> bool:
        """Whether the entries come from a scan of the data, not from the disk."""
        return self.offsets is not None and self.is_trusted

    @property
    def is_written(self) -> bool:
        """Whether the files have every entry, so that nothing is lost by forgetting them."""
        return all(
            index is None or index.written_count == len(index)
            for index in (self.offsets, self.times)
        )

    def forget(self) -> None:
        """Free the memory; the files are read again at the next use."""
        assert self.is_written
        self.offsets = self.times = None
        self.is_trusted = False

    def write(self) -> list[File]:
        """Append the missing entries to the files; returns the files that need an fsync.

        A full disk is no error: shorter files only cost a longer scan after a restart. Raises
        OSError for other errors."""
        written: list[File] = []
        for suffix, index, entry_bytes in (
            (OFFSET_INDEX, self.offsets, OFFSET_ENTRY_BYTES),
            (TIME_INDEX, self.times, TIME_ENTRY_BYTES),
        ):
            if index is None or index.written_count == len(index):
                continue
            file = self._disk.open(self.path_of(suffix), create=True)
            kept_bytes = index.written_count * entry_bytes
            if file.size_bytes < kept_bytes:
                index.written_count = kept_bytes = 0
            try:
                if file.size_bytes > kept_bytes:
                    file.truncate(kept_bytes)
                file.append([index.encode(index.written_count)])
            except OSError as error:
                if not is_out_of_space(error):
                    raise
                continue
            index.written_count = len(index)
            written.append(file)
        return written

    def peek_last(self, log_bytes: int) -> tuple[int, int, int] | None:
        """The last time entry and a position to find its batch, without loading the indexes.

        (timestamp, relative offset, position of a batch at or before it); None when in doubt.
        Retention calls this for every segment. Raises OSError."""
        try:
            times = self._disk.open(self.path_of(TIME_INDEX))
            offsets = self._disk.open(self.path_of(OFFSET_INDEX))
        except FileNotFoundError:
            return None
        last_position = times.size_bytes - TIME_ENTRY_BYTES
        if last_position < 0 or last_position % TIME_ENTRY_BYTES:
            return None
        last = TimeIndex.decode(times.pread(TIME_ENTRY_BYTES, last_position))
        if not last:
            return None
        timestamp, relative_offset = last.timestamps[0], last.offsets[0]
        # Bisection over the entries in the file.
        position, low, high = 0, 0, offsets.size_bytes // OFFSET_ENTRY_BYTES
        while low < high:
            middle = (low + high) // 2
            entry = offsets.pread(OFFSET_ENTRY_BYTES, middle * OFFSET_ENTRY_BYTES)
            if int.from_bytes(entry[:4], signed=True) <= relative_offset:
                position, low = int.from_bytes(entry[4:], signed=True), middle + 1
            else:
                high = middle
        return (timestamp, relative_offset, position) if 0 <= position < log_bytes else None

    def cut(self, log_bytes: int, relative_offset: int) -> None:
        """Forget batches at or after a position and offset; ``cut_files`` cuts the files."""
        self.offsets_or_raise.truncate(log_bytes)
        self.times_or_raise.truncate(relative_offset)

    def cut_files(self) -> list[File]:
        """Cut the files to the remaining entries; returns the files that need an fsync."""
        cut: list[File] = []
        for suffix, index, entry_bytes in (
            (OFFSET_INDEX, self.offsets, OFFSET_ENTRY_BYTES),
            (TIME_INDEX, self.times, TIME_ENTRY_BYTES),
        ):
            assert index is not None
            file = self._disk.open(self.path_of(suffix), create=True)
            if file.size_bytes > index.written_count * entry_bytes:
                file.truncate(index.written_count * entry_bytes)
                cut.append(file)
        return cut

    def entry_offset(self, position: int) -> int | None:
        """The last offset of the batch that starts exactly there; None if it is not indexed."""
        assert self.offsets is not None
        return self.offsets.offset_at(position)

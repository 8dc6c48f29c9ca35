"""The index files of one segment: loaded at need, believed only after a look, written in batches.

An index is a cache of the data file. It may lag behind it on disk at any time, and it may be
thrown away at any time (hazard S-04).
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

# A log may be this large without any entry (one batch); beyond it the entries were lost.
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
        # False while the entries come from the disk: look at the batch before believing one.
        self.is_trusted = True

    def move_to(self, directory: str) -> None:
        """The directory with the files has another name now."""
        self._directory = directory

    def path_of(self, suffix: str) -> str:
        return join(self._directory, segment_name(self.base_offset, suffix))

    @property
    def offsets_or_raise(self) -> OffsetIndex:
        """The loaded offset index; not having loaded it is a bug."""
        assert self.offsets is not None
        return self.offsets

    @property
    def times_or_raise(self) -> TimeIndex:
        """The loaded time index; not having loaded it is a bug."""
        assert self.times is not None
        return self.times

    def clear(self) -> None:
        """Start with empty indexes that are about to be filled by a scan."""
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        self.is_trusted = True

    def load(self, log_bytes: int, *, is_sealed: bool) -> bool:
        """Read both files; False when they are missing, spoiled or lack what must be there.

        Raises OSError."""
        offsets_content = read_file(self._disk, self.path_of(OFFSET_INDEX))
        times_content = read_file(self._disk, self.path_of(TIME_INDEX))
        if offsets_content is None or times_content is None:
            return False
        offsets = OffsetIndex.decode(offsets_content, log_bytes)
        times = TimeIndex.decode(times_content)
        if offsets is None or times is None:
            return False
        # An active segment's are appended to, and then believed. For the others, which may be
        # loaded at somebody's read, it is enough to look at the batch that an entry leads to.
        if not is_sealed and not (offsets.is_ascending and times.is_ascending):
            return False
        if not offsets and log_bytes > UNINDEXED_LOG_BYTES_MAX:
            return False
        # Each offset entry comes with the time so far, and sealing adds the last word.
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
        """Give the memory back; the files are read again at the next use."""
        assert self.is_written
        self.offsets = self.times = None
        self.is_trusted = False

    def write(self) -> list[File]:
        """Append what the index files lack and return those that now want an fsync.

        A full disk is no failure here: the files stay shorter than they could be, which costs a
        longer scan after a restart. Raises OSError for anything else."""
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
        """The last time entry and where to look for its batch, without loading the indexes.

        (timestamp, relative offset, position of a batch at or before it); None when in doubt.
        Retention asks this of every segment there is. Raises OSError."""
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
        """Forget batches at or after a position and offset; the files are cut when written."""
        self.offsets_or_raise.truncate(log_bytes)
        self.times_or_raise.truncate(relative_offset)

    def cut_files(self) -> list[File]:
        """Cut the files back to what is still known, and return those that now want an fsync."""
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
        """The last offset that the index gives to the batch starting exactly there."""
        assert self.offsets is not None
        return self.offsets.offset_at(position)

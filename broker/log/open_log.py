"""The in-memory state of one log, and the basic operations that change it.

All operations on a log (appending and reading in partition_log.py; flushing, truncating, deleting
and recovering in files of those names) use it. The list of segments is replaced, never changed, so
that readers can keep searching the old one (copy on write).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from ottla.broker.log.storage.health import (
    SCARCE_MS,
    is_out_of_descriptors,
    is_out_of_space,
    storage_error,
)
from ottla.broker.log.storage.names import SNAPSHOT, join, segment_name
from ottla.broker.log.storage.segment import Segment
from ottla.broker.log.storage.settings import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.log.observer import LogObserver
    from ottla.broker.log.storage.directory_services import LogDirectoryServices
    from ottla.broker.log.storage.settings import LogSettings
    from ottla.protocol.ids import TopicPartition, Uuid
    from ottla.protocol.ports import File


class OpenLog:
    """The segments and offsets of one log. Invariant: log start <= log end."""

    def __init__(
        self,
        home: LogDirectoryServices,
        directory: str,
        partition: TopicPartition,
        topic_id: Uuid | None,
        settings: LogSettings,
        observer: LogObserver,
    ) -> None:
        self.home = home
        self.directory = directory
        self.partition = partition
        self.topic_id = topic_id
        self.settings = settings
        self.observer = observer
        self.log_start_offset = 0
        self.log_end_offset = 0
        # Everything below is flushed; recovery scans from here.
        self.recovery_point = 0
        # Compacted up to here; later records may hold newer values of any key.
        self.cleaned_offset = 0
        self.segments: tuple[Segment, ...] = ()
        self._base_offsets: list[int] = []
        # Serialises all changes of the set of segments or their files: flush, truncation, deletion,
        # close (hazard S-26). Appends and reads do not take it.
        self.lock = asyncio.Lock()
        # Why appends are refused: a truncation under way, a failed one, a closed log.
        self.refusal: str | None = None
        self.unflushed_since_ms: float | None = None
        # Counts names made, renamed and removed; the recovery point may only move once an fsync
        # of the directory has caught up (hazard S-07).
        self.names_changed = 0
        self.names_synced = 0
        self.files_to_sync: list[File] = []
        # The log start has moved since it was saved last (hazard S-19).
        self.has_unsaved_start = False
        # Whether messages of format 1 may be among the batches (``KEPT_FORMAT`` is there).
        self.keeps_messages = False
        # Whether a segment may have a transaction index.
        self.has_aborted = False
        self.saved_leader_epochs: list[tuple[int, int]] = []
        # The log is being copied to another data directory, and is not compacted meanwhile.
        self.is_moving = False
        # The lowest offset truncated since the copier's last check (future_logs.py).
        self.lowest_cut = INT64_MAX
        self.snapshot_offsets: list[int] = []
        # The active segment's size at the last producer snapshot, bytes.
        self.snapshot_position = 0

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.partition}, offsets {self.log_start_offset}.."
            f"{self.log_end_offset}, {len(self.segments)} segments)"
        )

    @property
    def active(self) -> Segment:
        """The segment that is appended to; there always is one."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """The size of all data files, bytes."""
        return sum(segment.size_bytes for segment in self.segments)

    def set_segments(self, segments: Iterable[Segment]) -> None:
        """Replace the list of segments; the last one becomes the active one."""
        self.segments = tuple(segments)
        self._base_offsets = [segment.base_offset for segment in self.segments]
        assert self._base_offsets
        assert all(left < right for left, right in pairwise(self._base_offsets))
        self.segments[-1].is_active = True
        # The segments before it can be flushed now.
        self.home.to_flush[self] = None

    def segment_number(self, offset: int) -> int:
        """The index of the last segment that starts at or before the offset."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def note_cut(self, offset: int) -> None:
        """Remember that everything from the offset on was truncated."""
        self.lowest_cut = min(self.lowest_cut, offset)

    def ensure_usable(self) -> None:
        """Raise KafkaError(KAFKA_STORAGE_ERROR) if the log must not be changed now."""
        self.home.health.ensure_online()
        if self.refusal is not None:
            raise storage_error(f"the log of {self.partition} is not writable: {self.refusal}")

    def new_segment(self, base_offset: int, now_ms: float) -> Segment:
        """Create an empty segment on the disk, not yet in the list. Raises OSError."""
        segment = Segment(
            self.home, self.directory, base_offset, self.settings.index_interval_bytes
        )
        segment.create()
        self.names_changed += 1
        self.start_clock(segment, now_ms)
        return segment

    def start_clock(self, segment: Segment, now_ms: float) -> None:
        """Start the segment's age for rolling, with a random jitter."""
        segment.created_ms = now_ms
        jitter_max = min(self.settings.segment_jitter_ms, self.settings.segment_ms)
        segment.jitter_ms = self.home.random.below(jitter_max) if jitter_max > 0 else 0

    def roll(self, base_offset: int, now_ms: float) -> Segment:
        """Start a new active segment. Raises OSError; the log is unchanged then."""
        sealed = self.active
        # An empty segment is reused, not rolled, unless it cannot reach the offset (S-16, S-14).
        assert base_offset > sealed.base_offset
        assert base_offset >= sealed.next_offset
        segment = self.new_segment(base_offset, now_ms)
        self.take_snapshot(base_offset)
        sealed.seal()
        sealed.give_back_blocks()
        self.set_segments((*self.segments, segment))
        self.snapshot_position = 0
        self.home.open_segments.trim()
        return segment

    def take_snapshot(self, offset: int) -> None:
        """Save the producers as of an offset. Raises OSError.

        On a full disk it is skipped: a restart reads from an older snapshot."""
        if self.snapshot_offsets and self.snapshot_offsets[-1] >= offset:
            return
        content = self.observer.snapshot()
        try:
            file = self.home.disk.open(self.snapshot_path(offset), create=True)
            if file.size_bytes:
                file.truncate(0)
            file.append([content])
        except OSError as error:
            if not is_out_of_space(error):
                raise
            return
        self.snapshot_offsets.append(offset)
        self.snapshot_position = self.active.size_bytes
        self.files_to_sync.append(file)
        self.names_changed += 1

    async def settled(self) -> None:
        """Wait until no truncation is in progress; then the offsets are final."""
        if self.refusal is not None:
            async with self.lock:
                pass

    async def sync_names(self) -> None:
        """Make changed names in the directory durable. Raises OSError.

        Waits if the process has no free descriptor, since some callers cannot stop halfway."""
        changed = self.names_changed
        while self.names_synced < changed:
            try:
                await self.home.disk.fsync_directory(self.directory)
            except OSError as error:
                if not is_out_of_descriptors(error):
                    raise
                self.home.health.make_room()
                await self.home.clock.sleep(SCARCE_MS)
            else:
                self.names_synced = changed

    def snapshot_path(self, offset: int) -> str:
        return join(self.directory, segment_name(offset, SNAPSHOT))

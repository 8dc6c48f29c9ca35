"""The checkpoints of one data directory.

They are recovery points, log starts, high watermarks, the wall clock and the cleaner's offsets.

Entries of partitions that could not be loaded are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.checkpoints import (
    decode_offsets,
    decode_wall_clock,
    encode_offsets,
    encode_wall_clock,
    read_file,
    replace_file,
)
from ottla.broker.log.storage.coalescing import CoalescedSave
from ottla.broker.log.storage.names import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    WALL_CLOCK,
    join,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.storage.directory_services import LogDirectoryServices
    from ottla.protocol.ids import TopicPartition


class DirectoryCheckpoints:
    """Owned by a data directory. Saves raise KafkaError(KAFKA_STORAGE_ERROR)."""

    def __init__(self, home: LogDirectoryServices, logs: Mapping[TopicPartition, OpenLog]) -> None:
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        # As last saved or read; an absent one means the log start (hazard R-26).
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        # The wall clock when it was last trusted, milliseconds; None if it was never saved.
        self.wall_ms: int | None = None
        self._written: dict[str, bytes] = {}
        # The offsets of that content; they are not encoded again while they are equal.
        self._written_offsets: dict[str, dict[TopicPartition, int]] = {}
        # Files that still contain a partition which is to be forgotten.
        self._stale: set[str] = set()
        self._home = home
        self._logs = logs
        self.save_recovery_points = CoalescedSave(self._save_recovery_points)
        self.save_log_starts = CoalescedSave(self._save_log_starts)
        self.save_high_watermarks = CoalescedSave(self._save_high_watermarks)
        self.save_cleaner_offsets = CoalescedSave(self._save_cleaner_offsets)
        self._save_time = CoalescedSave(self._save_wall_clock)

    def read(self) -> None:
        """Read the files; a corrupt one counts as absent. Raises OSError."""
        self.recovery_points = self._read(RECOVERY_POINTS)
        self.log_starts = self._read(LOG_STARTS)
        self.high_watermarks = self._read(HIGH_WATERMARKS)
        self.cleaner_offsets = self._read(CLEANER_OFFSETS)
        path = join(self._home.health.path, WALL_CLOCK)
        self.wall_ms = decode_wall_clock(read_file(self._home.disk, path))

    async def forget(self, partition: TopicPartition) -> None:
        """Remove the partition from all files: a new one of that name may follow."""
        for name, offsets in (
            (RECOVERY_POINTS, self.recovery_points),
            (LOG_STARTS, self.log_starts),
            (HIGH_WATERMARKS, self.high_watermarks),
            (CLEANER_OFFSETS, self.cleaner_offsets),
        ):
            if offsets.pop(partition, None) is not None:
                self._stale.add(name)
        # Includes files that an earlier call could not write because the disk was full.
        if RECOVERY_POINTS in self._stale:
            await self.save_recovery_points()
        if LOG_STARTS in self._stale:
            await self.save_log_starts()
        if HIGH_WATERMARKS in self._stale:
            await self.save_high_watermarks()
        if CLEANER_OFFSETS in self._stale:
            await self.save_cleaner_offsets()

    def _read(self, name: str) -> dict[TopicPartition, int]:
        path = join(self._home.health.path, name)
        return decode_offsets(read_file(self._home.disk, path)) or {}

    async def _save_recovery_points(self) -> None:
        points = self.recovery_points
        for partition, log in self._logs.items():
            points[partition] = log.recovery_point
        await self._write(RECOVERY_POINTS, points)

    async def _save_log_starts(self) -> None:
        starts = self.log_starts
        for partition, log in self._logs.items():
            starts[partition] = log.log_start_offset
        await self._write(LOG_STARTS, starts)

    async def _save_high_watermarks(self) -> None:
        await self._write(HIGH_WATERMARKS, self.high_watermarks)

    async def _save_cleaner_offsets(self) -> None:
        for partition, log in self._logs.items():
            # Most logs are never compacted, and need no line.
            if log.cleaned_offset or partition in self.cleaner_offsets:
                self.cleaner_offsets[partition] = log.cleaned_offset
        await self._write(CLEANER_OFFSETS, self.cleaner_offsets)

    async def save_wall_clock(self, wall_ms: int) -> None:
        """Save the time for the broker's next start (hazard S-18)."""
        self.wall_ms = wall_ms
        await self._save_time()

    async def _save_wall_clock(self) -> None:
        assert self.wall_ms is not None
        await self._write_content(WALL_CLOCK, encode_wall_clock(self.wall_ms))

    async def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._home.health.ensure_online()
        if name in self._written and self._written_offsets.get(name) == offsets:
            self._stale.discard(name)
            return
        self._written_offsets[name] = dict(offsets)
        await self._write_content(name, encode_offsets(offsets))

    async def _write_content(self, name: str, content: bytes) -> None:
        self._home.health.ensure_online()
        path = join(self._home.health.path, name)
        was_stale = name in self._stale
        self._stale.discard(name)
        if self._written.get(name) == content:
            return
        # Until the write succeeds, the content of the file is unknown.
        self._written.pop(name, None)
        try:
            await replace_file(self._home.disk, path, content)
        except OSError as error:
            if was_stale:
                self._stale.add(name)
            raise self._home.health.judge(f"cannot write {path}", error) from error
        self._written[name] = content

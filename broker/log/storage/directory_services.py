"""Services that all logs of one data directory share: disk, clock, open files, late deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.broker.log.storage.health import DirectoryHealth
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock, Disk, Offload, Random

OPEN_SEGMENTS_MAX = 2048


class Releasable(Protocol):
    """Something that holds descriptors which it can open again."""

    is_used: bool

    def release(self) -> bool:
        """Close files and drop loaded indexes; False while there are unsynced writes."""


class Flushable(Protocol):
    """A log as its directory services see it."""

    refusal: str | None

    @property
    def partition(self) -> TopicPartition: ...


class OpenSegments:
    """Bounds how many segments have open files (hazard S-30): second chance, oldest first.

    Workers that load logs open segments too; only the event loop closes them."""

    def __init__(self, limit: int = OPEN_SEGMENTS_MAX) -> None:
        assert limit >= 1
        self._limit = limit
        self._open: dict[Releasable, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, segment: Releasable) -> None:
        """A segment has opened its file."""
        self._open[segment] = None

    def closed(self, segment: Releasable) -> None:
        """The segment has closed its file."""
        self._open.pop(segment, None)

    def trim(self) -> None:
        """Close segments that were not used lately, down to the limit."""
        self._release(len(self._open) - self._limit)

    def release_idle(self) -> None:
        """Close segments that were not used since the last call; called every minute."""
        self._release(len(self._open))

    def make_room(self) -> None:
        """Close a quarter of the open segments: the process has no descriptor left."""
        self._release(1 + len(self._open) // 4)

    def _release(self, count: int) -> None:
        if count <= 0:
            return
        for segment in list(self._open):
            del self._open[segment]
            if not segment.is_used and segment.release():
                count -= 1
                if count == 0:
                    return
            else:
                # Used since the last check, or unsynced: back to the end of the queue.
                segment.is_used = False
                self._open[segment] = None


class LogSeams(Protocol):
    """The ports that logs need; ``ports.Ports`` has them."""

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> Random: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def offload(self) -> Offload: ...


class LogDirectoryServices:
    """Services of one data directory, which creates them and passes them to each of its logs."""

    __slots__ = (
        "clock",
        "disk",
        "health",
        "late_deletions",
        "offload",
        "open_segments",
        "random",
        "save_cleaner_offsets",
        "save_log_starts",
        "save_recovery_points",
        "to_flush",
    )

    def __init__(
        self, seams: LogSeams, health: DirectoryHealth, open_segments: OpenSegments
    ) -> None:
        self.disk = seams.disk
        self.offload = seams.offload
        self.clock = seams.clock
        self.random = seams.random
        self.health = health
        self.open_segments = open_segments
        self.late_deletions = DelayedDeletions(seams.disk, health)
        # Logs that may have something to flush; each adds itself. Checking all logs ten times a
        # second would dominate the load of an idle broker.
        self.to_flush: dict[Flushable, None] = {}
        # Set by the data directory: each saves its checkpoint of all logs, durably.
        self.save_cleaner_offsets: Callable[[], Awaitable[None]] = _nothing
        self.save_recovery_points: Callable[[], Awaitable[None]] = _nothing
        self.save_log_starts: Callable[[], Awaitable[None]] = _nothing


async def _nothing() -> None:
    return None


class DelayedDeletions:
    """Renamed files and directories, deleted when no reader can still open them by name."""

    def __init__(self, disk: Disk, health: DirectoryHealth) -> None:
        self._disk = disk
        self._health = health
        self._waiting: list[tuple[float, str, bool]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def schedule(self, path: str, due_ms: float, *, is_directory: bool = False) -> None:
        """Delete the path in the first ``delete_due`` at or after ``due_ms``."""
        self._waiting.append((due_ms, path, is_directory))

    async def delete_due(self, now_ms: float) -> int:
        """Delete every path that is due; return how many were deleted.

        Raises KafkaError(KAFKA_STORAGE_ERROR) naming the path that cannot be removed; the
        directory is then offline and the rest stays."""
        due = [one for one in self._waiting if one[0] <= now_ms]
        # Taken out before the first await: a second caller must not delete the same path.
        self._waiting = [one for one in self._waiting if one[0] > now_ms]
        for count, (_, path, is_directory) in enumerate(due):
            try:
                self._health.ensure_online()
                if is_directory:
                    await self._disk.remove_tree(path)
                else:
                    await self._disk.unlink(path)
            except OSError as error:
                self._waiting += due[count:]
                raise self._health.latch(f"cannot delete {path}", error) from error
        return len(due)

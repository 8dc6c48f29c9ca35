"""A disk that does everything at once, fails where told, and can lose power at any operation."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ottla.broker.testing.faulty_disk import FaultPlan
from tests.simulation.world.filesystem import SimFileSystem
from tests.simulation.world.inode import Inode
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Buffer


class PowerCut(BaseException):
    """The machine stopped. Not an Exception: nothing may catch it and go on."""


class CrashDisk:
    """``ports.Disk`` over a simulated file system, without a loop or delays.

    ``crash_at``: the number of the changing operation that does not happen any more."""

    def __init__(self, files: SimFileSystem | None = None, crash_at: int | None = None) -> None:
        self.files = files or SimFileSystem()
        self.faults = FaultPlan()
        self.changes = 0
        self.crash_at = crash_at
        self.fsyncs: list[str] = []
        self.appends: list[tuple[str, int]] = []

    def changing(self, operation: str, path: str) -> None:
        """Every operation that changes something begins here."""
        self.faults.check(operation, path)
        self.changes += 1
        if self.crash_at is not None and self.changes >= self.crash_at:
            raise PowerCut(operation, path)

    def power_cut(self, seed: int, *, ordered: bool = True) -> CrashDisk:
        """The disk after the power went, as one of the many things it may then hold."""
        self.files.lose_power(SimRandom(seed), ordered=ordered)
        return CrashDisk(self.files)

    def killed(self) -> CrashDisk:
        """The disk after a process kill: the page cache has everything."""
        self.files.locks.clear()
        return CrashDisk(self.files)

    def open(self, path: str, *, create: bool = False) -> CrashFile:
        self.faults.check("open", path)
        if create and self.files.find(path) is None:
            self.changing("create", path)
            return CrashFile(self, path, self.files.create(path))
        return CrashFile(self, path, self.files.file(path))

    def exists(self, path: str) -> bool:
        return self.files.find(path) is not None

    def is_directory(self, path: str) -> bool:
        node = self.files.find(path)
        return node is not None and not isinstance(node, Inode)

    def free_bytes(self, path: str) -> int:
        self.faults.check("free_bytes", path)
        return max(0, self.files.capacity_bytes - self.files.used_bytes())

    def total_bytes(self, path: str) -> int:
        return self.files.capacity_bytes

    def absolute(self, path: str) -> str:
        return path

    def modified_ms(self, path: str) -> int:
        return -1

    def boot_id(self) -> str:
        return self.files.boot_id

    def make_directory(self, path: str) -> None:
        if not self.is_directory(path):
            self.changing("make_directory", path)
            self.files.make_directory(path)

    def lock(self, path: str) -> CrashLock:
        self.open(path, create=True)
        if path in self.files.locks:
            raise BlockingIOError(errno.EAGAIN, "the lock is taken", path)
        self.files.locks[path] = lock = CrashLock(self.files, path)
        return lock

    async def scan(self, directory: str) -> list[str]:
        self.faults.check("scan", directory)
        return sorted(self.files.directory(directory).entries)

    async def rename(self, source: str, target: str) -> None:
        self.changing("rename", source)
        self.files.rename(source, target)

    async def unlink(self, path: str) -> None:
        self.changing("unlink", path)
        self.files.remove(path)

    async def remove_tree(self, directory: str) -> None:
        self.changing("remove_tree", directory)
        self.files.remove(directory)

    async def fsync_directory(self, directory: str) -> None:
        self.changing("fsync_directory", directory)
        self.fsyncs.append(directory)
        self.files.finish_sync(self.files.begin_sync(self.files.directory(directory)))


class CrashFile:
    """``ports.File`` of a CrashDisk."""

    __slots__ = ("_disk", "_inode", "path")

    def __init__(self, disk: CrashDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path

    @property
    def size_bytes(self) -> int:
        return len(self._inode.data)

    def fileno(self) -> int:
        raise AssertionError("no descriptor here")

    def append(self, buffers: Sequence[Buffer]) -> int:
        """A fault leaves half of what was asked, a full disk what fits."""
        content = b"".join(buffers)
        try:
            self._disk.changing("append", self.path)
        except (OSError, PowerCut):
            self._inode.write_end(content[: len(content) // 2])
            raise
        files = self._disk.files
        room = len(content)
        if files.capacity_bytes < 1 << 40:
            room = min(room, max(0, files.capacity_bytes - files.used_bytes()))
        self._inode.write_end(content[:room])
        if room < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._disk.appends.append((self.path, len(content)))
        return len(content)

    def pread(self, count: int, position: int) -> bytes:
        self._disk.faults.check("pread", self.path)
        return bytes(self._inode.data[position : position + count])

    def is_resident(self, position: int, count: int) -> bool:
        return True

    def truncate(self, size_bytes: int) -> None:
        self._disk.changing("truncate", self.path)
        self._inode.truncate(size_bytes)

    async def fsync(self) -> None:
        self._disk.changing("fsync", self.path)
        self._disk.fsyncs.append(self.path)
        self._inode.finish_sync(self._inode.begin_sync())


class CrashLock:
    """``ports.FileLock`` of a CrashDisk; dies with the process only through ``killed``."""

    def __init__(self, files: SimFileSystem, path: str) -> None:
        self._files = files
        self._path = path

    def release(self) -> None:
        self._files.locks.pop(self._path, None)


class ManualClock:
    """``ports.Clock`` that moves when told, or by sleeping."""

    def __init__(self) -> None:
        self.time_ms = 1_000.0
        self.wall_offset_ms = 1_700_000_000_000

    def now_ms(self) -> float:
        return self.time_ms

    def wall_ms(self) -> int:
        return self.wall_offset_ms + int(self.time_ms)

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> _NoTimer:
        raise AssertionError("logs set no timers")

    async def sleep(self, delay_ms: float) -> None:
        self.time_ms += delay_ms


class _NoTimer:
    def cancel(self) -> None:
        return None

"""A disk that does everything at once, fails where told, and can lose power at any operation."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tests.simulation.world.filesystem import SimFileSystem
from tests.simulation.world.model_disk import ModelDisk, ModelFile
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Buffer
    from tests.simulation.world.inode import Inode


class PowerCut(BaseException):
    """The machine stopped. Not an Exception: nothing may catch it and go on."""


class CrashDisk(ModelDisk):
    """``ports.Disk`` over a simulated file system, without a loop or delays.

    ``crash_at``: the number of the changing operation that does not happen any more."""

    TEARS = (OSError, PowerCut)

    def __init__(self, files: SimFileSystem | None = None, crash_at: int | None = None) -> None:
        super().__init__(files or SimFileSystem())
        self.changes = 0
        self.crash_at = crash_at
        self.fsyncs: list[str] = []
        self.appends: list[tuple[str, int]] = []

    def enter(self, operation: str, path: str) -> float:
        return self.faults.check(operation, path)

    def change(self, operation: str, path: str) -> float:
        delay_ms = self.faults.check(operation, path)
        self.changes += 1
        if self.crash_at is not None and self.changes >= self.crash_at:
            raise PowerCut(operation, path)
        return delay_ms

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
            self.change("create", path)
            return CrashFile(self, path, self.files.create(path))
        return CrashFile(self, path, self.files.file(path))

    def make_directory(self, path: str) -> None:
        if not self.is_directory(path):
            self.change("make_directory", path)
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
        self.change("rename", source)
        self.files.rename(source, target)

    async def unlink(self, path: str) -> None:
        self.change("unlink", path)
        self.files.remove(path)

    async def remove_tree(self, directory: str) -> None:
        self.change("remove_tree", directory)
        self.files.remove(directory)

    async def fsync_directory(self, directory: str) -> None:
        self.change("fsync_directory", directory)
        self.fsyncs.append(directory)
        self.files.finish_sync(self.files.begin_sync(self.files.directory(directory)))


class CrashFile(ModelFile):
    """``ports.File`` of a CrashDisk."""

    __slots__ = ("_disk",)

    def __init__(self, disk: CrashDisk, path: str, inode: Inode) -> None:
        super().__init__(disk, path, inode)
        self._disk = disk

    def append(self, buffers: Sequence[Buffer]) -> int:
        size_bytes = super().append(buffers)
        self._disk.appends.append((self.path, size_bytes))
        return size_bytes

    def is_resident(self, position: int, count: int) -> bool:
        return True

    async def fsync(self) -> None:
        self._disk.change("fsync", self.path)
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

"""Disk faults on demand, around any disk: errors by operation and path, partial writes, delays.

For tests that want one named fault at one named place. The errors are those a real disk gives
(hazards S-09 to S-12); what was done before the fault stays done.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer, Clock, Disk, File, FileLock

WRITES = frozenset(
    {
        "append",
        "create",
        "fsync",
        "fsync_directory",
        "make_directory",
        "remove_tree",
        "rename",
        "truncate",
        "unlink",
    }
)


class DiskFault(NamedTuple):
    """One fault: which calls it meets and what they get.

    ``operations`` are method names of ``ports.Disk`` and ``ports.File``, and ``create`` for an
    open that makes a file. The first ``after`` matching calls succeed, the next ``times`` fail."""

    operations: frozenset[str]
    error: int = errno.EIO
    path_part: str = ""
    after: int = 0
    times: int = 1 << 62
    delay_ms: float = 0.0

    def matches(self, operation: str, path: str) -> bool:
        return operation in self.operations and self.path_part in path


def read_only() -> DiskFault:
    """The kernel has remounted the file system after an error of the device."""
    return DiskFault(WRITES, errno.EROFS)


class FaultPlan:
    """The faults in force; shared by a disk and its files, changed while they are in use."""

    def __init__(self) -> None:
        self._faults: list[tuple[DiskFault, list[int]]] = []
        self.hits = 0

    def add(self, fault: DiskFault) -> None:
        """From now on."""
        self._faults.append((fault, [0]))

    def clear(self) -> None:
        """The disk is well again."""
        self._faults.clear()

    def check(self, operation: str, path: str) -> float:
        """Raise the error that is due, or return the milliseconds that the call takes longer."""
        if not self._faults:
            return 0.0
        delay_ms = 0.0
        for fault, seen in self._faults:
            if not fault.matches(operation, path):
                continue
            seen[0] += 1
            if not fault.after < seen[0] <= fault.after + fault.times:
                continue
            self.hits += 1
            if fault.error:
                raise OSError(fault.error, os.strerror(fault.error), path)
            delay_ms = max(delay_ms, fault.delay_ms)
        return delay_ms


class FaultyFile:
    """``ports.File`` that fails as planned."""

    __slots__ = ("_clock", "_file", "_plan")

    def __init__(self, file: File, plan: FaultPlan, clock: Clock | None) -> None:
        self._file = file
        self._plan = plan
        self._clock = clock

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def fileno(self) -> int:
        return self._file.fileno()

    def append(self, buffers: Sequence[Buffer]) -> int:
        """A failing append leaves half of what it was asked to write, as a full disk does."""
        try:
            self._plan.check("append", self.path)
        except OSError:
            whole = b"".join(bytes(buffer) for buffer in buffers)
            self._file.append([whole[: len(whole) // 2]])
            raise
        return self._file.append(buffers)

    def pread(self, count: int, position: int) -> bytes:
        self._plan.check("pread", self.path)
        return self._file.pread(count, position)

    def is_resident(self, position: int, count: int) -> bool:
        """A delay says that the disk would have to be waited for."""
        delay_ms = self._plan.check("is_resident", self.path)
        return delay_ms == 0 and self._file.is_resident(position, count)

    def truncate(self, size_bytes: int) -> None:
        self._plan.check("truncate", self.path)
        self._file.truncate(size_bytes)

    async def fsync(self) -> None:
        await _wait(self._clock, self._plan.check("fsync", self.path))
        await self._file.fsync()


class FaultyDisk:
    """``ports.Disk`` around another one. Delays need a clock; without one they are ignored."""

    def __init__(self, disk: Disk, plan: FaultPlan, clock: Clock | None = None) -> None:
        self._disk = disk
        self._plan = plan
        self._clock = clock

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        self._plan.check("open", path)
        if create and not self._disk.exists(path):
            self._plan.check("create", path)
        return FaultyFile(self._disk.open(path, create=create), self._plan, self._clock)

    def exists(self, path: str) -> bool:
        self._plan.check("exists", path)
        return self._disk.exists(path)

    def is_directory(self, path: str) -> bool:
        self._plan.check("is_directory", path)
        return self._disk.is_directory(path)

    def free_bytes(self, path: str) -> int:
        self._plan.check("free_bytes", path)
        return self._disk.free_bytes(path)

    def modified_ms(self, path: str) -> int:
        self._plan.check("modified_ms", path)
        return self._disk.modified_ms(path)

    def boot_id(self) -> str:
        return self._disk.boot_id()

    def make_directory(self, path: str) -> None:
        self._plan.check("make_directory", path)
        self._disk.make_directory(path)

    def lock(self, path: str) -> FileLock:
        self._plan.check("lock", path)
        return self._disk.lock(path)

    async def scan(self, directory: str) -> list[str]:
        await _wait(self._clock, self._plan.check("scan", directory))
        return await self._disk.scan(directory)

    async def rename(self, source: str, target: str) -> None:
        await _wait(self._clock, self._plan.check("rename", source))
        await self._disk.rename(source, target)

    async def unlink(self, path: str) -> None:
        await _wait(self._clock, self._plan.check("unlink", path))
        await self._disk.unlink(path)

    async def remove_tree(self, directory: str) -> None:
        await _wait(self._clock, self._plan.check("remove_tree", directory))
        await self._disk.remove_tree(directory)

    async def fsync_directory(self, directory: str) -> None:
        await _wait(self._clock, self._plan.check("fsync_directory", directory))
        await self._disk.fsync_directory(directory)


async def _wait(clock: Clock | None, delay_ms: float) -> None:
    if clock is not None and delay_ms:
        await clock.sleep(delay_ms)

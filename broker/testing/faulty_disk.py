"""A disk with faults on demand, around any disk: errors by operation and path, partial writes,
delays, no space, and the end of the process during a write.

For tests that need one named fault at one named place. The errors are those of a real disk (hazards
S-09 to S-12); effects before the fault are kept.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """One fault: the calls that it affects, and their result.

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


GROWS = frozenset({"append", "create", "make_directory"})
# Operations that access the device, so that a slow one delays them.
WAITS = frozenset(
    {"fsync", "fsync_directory", "is_resident", "remove_tree", "rename", "scan", "unlink"}
)


class FaultPlan:
    """The active faults; shared by a disk and its files, changed while they are in use."""

    def __init__(self) -> None:
        self._faults: list[tuple[DiskFault, list[int]]] = []
        self.hits = 0
        # No space is free, and writes fail.
        self.is_full = False
        # The process counts as dead: its writes change nothing.
        self.is_dead = False
        # Called when half of the next log append is written; it ends the process.
        self.on_torn: Callable[[str], object] | None = None

    def add(self, fault: DiskFault) -> None:
        """Add a fault from now on."""
        self._faults.append((fault, [0]))

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def check(self, operation: str, path: str) -> float:
        """Raise the error that is due, or return the delay of the call in milliseconds."""
        if self.is_full and operation in GROWS:
            self.hits += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
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

    __slots__ = ("_clock", "_file", "_plan", "_void_bytes")

    def __init__(self, file: File, plan: FaultPlan, clock: Clock | None) -> None:
        self._file = file
        self._plan = plan
        self._clock = clock
        # The bytes that a dead process believes it has written.
        self._void_bytes = 0

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes + self._void_bytes

    def fileno(self) -> int:
        return self._file.fileno()

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Append; a failing append leaves half of its bytes, as a full disk does."""
        if self._plan.on_torn is not None and self.path.endswith(".log"):
            self._tear(buffers)
        if self._plan.is_dead:
            count = sum(map(len, buffers))
            self._void_bytes += count
            return count
        try:
            self._plan.check("append", self.path)
        except OSError:
            whole = b"".join(bytes(buffer) for buffer in buffers)
            self._file.append([whole[: len(whole) // 2]])
            raise
        return self._file.append(buffers)

    def _tear(self, buffers: Sequence[Buffer]) -> None:
        whole = b"".join(bytes(buffer) for buffer in buffers)
        self._file.append([whole[: len(whole) // 2]])
        on_torn, self._plan.on_torn = self._plan.on_torn, None
        assert on_torn is not None
        on_torn(self.path)

    def pread(self, count: int, position: int) -> bytes:
        self._plan.check("pread", self.path)
        return self._file.pread(count, position)

    def is_resident(self, position: int, count: int) -> bool:
        """With a delay, the data counts as not in memory."""
        delay_ms = self._plan.check("is_resident", self.path)
        return delay_ms == 0 and self._file.is_resident(position, count)

    def truncate(self, size_bytes: int) -> None:
        self._plan.check("truncate", self.path)
        if not self._plan.is_dead:
            self._file.truncate(size_bytes)

    async def fsync(self) -> None:
        if self._plan.is_dead:
            return
        await _wait(self._clock, self._plan.check("fsync", self.path))
        await self._file.fsync()


class FaultyDisk:
    """``ports.Disk`` around another one. Delays need a clock; without one they are ignored."""

    def __init__(self, disk: Disk, plan: FaultPlan, clock: Clock | None = None) -> None:
        self._below = disk
        # Receives the writes of a dead process.
        self._void = MemoryDisk()
        self._plan = plan
        self._clock = clock
        self._locks: list[FileLock] = []

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        self._plan.check("open", path)
        if create and not self._below.exists(path):
            self._plan.check("create", path)
            if self._plan.is_dead:
                self._void.make_directory(os.path.dirname(path))
                return FaultyFile(self._void.open(path, create=True), self._plan, self._clock)
        return FaultyFile(self._below.open(path, create=create), self._plan, self._clock)

    def exists(self, path: str) -> bool:
        self._plan.check("exists", path)
        return self._below.exists(path)

    def is_directory(self, path: str) -> bool:
        self._plan.check("is_directory", path)
        return self._below.is_directory(path)

    def free_bytes(self, path: str) -> int:
        self._plan.check("free_bytes", path)
        return 0 if self._plan.is_full else self._below.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        self._plan.check("total_bytes", path)
        return self._below.total_bytes(path)

    def absolute(self, path: str) -> str:
        return self._below.absolute(path)

    def modified_ms(self, path: str) -> int:
        self._plan.check("modified_ms", path)
        return self._below.modified_ms(path)

    def boot_id(self) -> str:
        return self._below.boot_id()

    def make_directory(self, path: str) -> None:
        self._plan.check("make_directory", path)
        (self._void if self._plan.is_dead else self._below).make_directory(path)

    def lock(self, path: str) -> FileLock:
        self._plan.check("lock", path)
        lock = self._below.lock(path)
        self._locks.append(lock)
        return lock

    def release_locks(self) -> None:
        """Release all locks, as the kernel does when a process ends."""
        for lock in self._locks:
            lock.release()

    async def scan(self, directory: str) -> list[str]:
        await _wait(self._clock, self._plan.check("scan", directory))
        return await self._below.scan(directory)

    async def rename(self, source: str, target: str) -> None:
        await self._enter("rename", source)
        if not self._plan.is_dead:
            await self._below.rename(source, target)

    async def unlink(self, path: str) -> None:
        await self._enter("unlink", path)
        if not self._plan.is_dead:
            await self._below.unlink(path)

    async def remove_tree(self, directory: str) -> None:
        await self._enter("remove_tree", directory)
        if not self._plan.is_dead:
            await self._below.remove_tree(directory)

    async def fsync_directory(self, directory: str) -> None:
        await self._enter("fsync_directory", directory)
        if not self._plan.is_dead:
            await self._below.fsync_directory(directory)

    async def _enter(self, operation: str, path: str) -> None:
        await _wait(self._clock, self._plan.check(operation, path))


async def _wait(clock: Clock | None, delay_ms: float) -> None:
    if clock is not None and delay_ms:
        await clock.sleep(delay_ms)

"""One process's view of a simulated file system: latency, faults, and death."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.broker.testing.faulty_disk import FaultPlan
from tests.simulation.world.model_disk import ModelDisk, ModelFile

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from tests.simulation.world.filesystem import SimFileSystem
    from tests.simulation.world.inode import Inode
    from tests.simulation.world.loop import SimLoop
    from tests.simulation.world.process import SimProcess
    from tests.simulation.world.random import SimRandom

Result = TypeVar("Result")


class DiskProfile(NamedTuple):
    """How this seed's disk behaves without faults."""

    fsync_ms: float = 2.0
    name_operation_ms: float = 0.2
    cold_probability: float = 0.05
    spike_probability: float = 0.01
    spike_ms: float = 300.0


class SimDisk(ModelDisk):
    """``ports.Disk`` for one incarnation of a node.

    An awaited operation continues when its waiter is cancelled, as a worker thread does (hazard
    P-04); it takes effect somewhere within its time, or not at all when the process dies before.
    """

    def __init__(
        self,
        loop: SimLoop,
        files: SimFileSystem,
        process: SimProcess,
        random: SimRandom,
        profile: DiskProfile,
    ) -> None:
        super().__init__(files)
        self.losing_fsyncs = FaultPlan()
        self.failed_fsyncs: dict[str, int] = {}
        self._loop = loop
        self._process = process
        self._random = random
        self._profile = profile

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.enter("open", path)
        if create and self.files.find(path) is None:
            self.faults.check("create", path)
            return SimFile(self, path, self.files.create(path))
        return SimFile(self, path, self.files.file(path))

    def boot_id(self) -> str:
        self._process.check()
        return super().boot_id()

    def make_directory(self, path: str) -> None:
        self.enter("make_directory", path)
        self.files.make_directory(path)

    def lock(self, path: str) -> SimFileLock:
        self.open(path, create=True)
        holder = self.files.locks.get(path)
        if isinstance(holder, SimFileLock) and holder.is_held:
            raise BlockingIOError(errno.EAGAIN, "the lock is taken", path)
        lock = self.files.locks[path] = SimFileLock(self._process)
        return lock

    async def scan(self, directory: str) -> list[str]:
        extra_ms = self.enter("scan", directory)
        return await self.later(
            self._profile.name_operation_ms + extra_ms,
            lambda: sorted(self.files.directory(directory).entries),
        )

    async def rename(self, source: str, target: str) -> None:
        extra_ms = self.enter("rename", source)
        await self.later(
            self._profile.name_operation_ms + extra_ms, lambda: self.files.rename(source, target)
        )

    async def unlink(self, path: str) -> None:
        extra_ms = self.enter("unlink", path)

        def unlink() -> None:
            if self.files.find(path) is not None:
                self.files.file(path)
            self.files.remove(path)

        await self.later(self._profile.name_operation_ms + extra_ms, unlink)

    async def remove_tree(self, directory: str) -> None:
        extra_ms = self.enter("remove_tree", directory)
        await self.later(
            self._profile.name_operation_ms + extra_ms, lambda: self.files.remove(directory)
        )

    async def fsync_directory(self, directory: str) -> None:
        extra_ms = self.enter("fsync_directory", directory)
        changes = self.files.begin_sync(self.files.directory(directory))
        await self.later(self._profile.fsync_ms + extra_ms, lambda: self.files.finish_sync(changes))

    def enter(self, operation: str, path: str) -> float:
        """Every call begins here: the dead do nothing, faults strike; returns extra delay."""
        self._process.check()
        self._loop.spend()
        return self.faults.check(operation, path)

    def change(self, operation: str, path: str) -> float:
        return self.enter(operation, path)

    async def later(self, mean_ms: float, work: Callable[[], Result]) -> Result:
        """Do the work after a seeded delay, whether or not anyone still waits for it."""
        waiter: asyncio.Future[Result] = self._loop.create_future()

        def perform() -> None:
            try:
                result = work()
            except OSError as error:
                if not waiter.done():
                    waiter.set_exception(error)
            else:
                if not waiter.done():
                    waiter.set_result(result)

        self._loop.call_later(self._delay_s(mean_ms), perform)
        return await waiter

    async def fsync(self, path: str, inode: Inode) -> None:
        """A failure is reported once; the next fsync of the same file is counted as a mistake."""
        extra_ms = self.enter("fsync", path)
        if path in self.failed_fsyncs:
            self.failed_fsyncs[path] += 1
        sync = inode.begin_sync()

        def finish() -> None:
            try:
                self.losing_fsyncs.check("fsync", path)
            except OSError:
                inode.fail_sync()
                self.failed_fsyncs.setdefault(path, 0)
                raise
            inode.finish_sync(sync)

        await self.later(self._profile.fsync_ms + extra_ms, finish)

    def is_cold(self) -> bool:
        """Whether a read would have to wait for the device."""
        return self._random.chance(self._profile.cold_probability)

    def _delay_s(self, mean_ms: float) -> float:
        draw, profile = self._random.random, self._profile
        delay_ms = mean_ms * (0.5 + draw())
        if draw() < profile.spike_probability:
            delay_ms += draw() * profile.spike_ms
        return delay_ms / 1_000.0


class SimFile(ModelFile):
    """``ports.File``."""

    __slots__ = ("_disk",)

    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        super().__init__(disk, path, inode)
        self._disk = disk

    def is_resident(self, position: int, count: int) -> bool:
        return not self._disk.is_cold()

    async def fsync(self) -> None:
        await self._disk.fsync(self.path, self._inode)


class SimFileLock:
    """``ports.FileLock``: held until released or until its process is no more."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self._released = False

    @property
    def is_held(self) -> bool:
        return not self._released and self._process.running

    def release(self) -> None:
        self._released = True

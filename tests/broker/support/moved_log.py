"""A log that is moved between two data directories, on a disk that may stop at any operation.

While the move runs, records are appended between its operations, as producers do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.directories.replica_copy import ReplicaCopy
from ottla.broker.replica.history import ReplicaHistory
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.builder import BatchOptions
from tests.broker.log.broker_disk import SETTINGS, TOPIC_ID, BrokerDisk
from tests.broker.log.crash_disk import CrashDisk
from tests.broker.log.log_under_test import batch_at, read_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.log.directories.future_logs import Future
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.broker.log.storage.settings import LogSettings
    from tests.simulation.world.filesystem import SimFileSystem

PARTITION = TopicPartition("orders", 0)
APPENDED_MAX = 45
# Number of disk operations between two appends.
APPEND_EVERY = 5


def _nothing() -> None:
    """Nothing is appended."""


class BusyDisk(CrashDisk):
    """Calls a function before each operation that changes something."""

    def __init__(self, files: SimFileSystem | None = None, crash_at: int | None = None) -> None:
        super().__init__(files, crash_at)
        self.before_change: Callable[[], None] = _nothing
        # An append is one step: no other action runs within it.
        self.is_acting = False

    def change(self, operation: str, path: str) -> float:
        if not self.is_acting:
            self.is_acting = True
            self.before_change()
            self.is_acting = False
        return super().change(operation, path)


class _House(BrokerDisk):
    def open_as(self, partition: TopicPartition) -> tuple[LogSettings, ReplicaHistory]:  # type: ignore[override]  # the real observer
        return SETTINGS, ReplicaHistory()


class MovedLog:
    """Two data directories with one log, which begins in the first."""

    def __init__(self, disk: BusyDisk | None = None) -> None:
        self.disk = disk or BusyDisk()
        self.broker = _House(2, self.disk)
        # The highest recovery point there ever was: everything below it was said to be durable.
        self.promised = 0
        self.epoch = 0
        self._opened: LogDirectories | None = None

    @property
    def logs(self) -> LogDirectories:
        assert self._opened is not None
        return self._opened

    @property
    def log(self) -> PartitionLog:
        log = self.logs.get(PARTITION)
        assert log is not None
        return log

    @property
    def content(self) -> list[tuple[int, int, bytes]]:
        """Every batch of the log."""
        return read_all(self.log)

    @property
    def directory(self) -> str:
        """The data directory that the log lies in."""
        found = self.logs.directory_of(PARTITION)
        assert found is not None
        return found.path

    async def start(self) -> None:
        self._opened = await self.broker.start()

    async def fill(self) -> None:
        """Several segments, some of it durable, some not."""
        await self.logs.create(PARTITION, TOPIC_ID, is_new=True)
        for _ in range(10):
            self.append()
        await self.log.flush()
        self.append(3)
        await self.logs.checkpoint({PARTITION: self.log.log_end_offset}.copy)

    def append(self, count: int = 1) -> None:
        log = self.log
        batch = batch_at(log.log_end_offset, count, options=BatchOptions(leader_epoch=self.epoch))
        was_acting, self.disk.is_acting = self.disk.is_acting, True
        log.append([batch], self.broker.clock.now_ms())
        self.disk.is_acting = was_acting
        log.observer.observe(batch)
        self.note()

    def append_meanwhile(self) -> None:
        """What producers do between two operations of a move."""
        self.note()
        if self.disk.changes % APPEND_EVERY == 0 and self.log.log_end_offset < APPENDED_MAX:
            self.append()

    def note(self) -> None:
        self.promised = max(self.promised, self.log.recovery_point)

    async def begin(self) -> Future:
        """Begin a move to the other directory."""
        source = self.logs.directory_of(PARTITION)
        assert source is not None
        target = next(one for one in self.logs.directories if one is not source)
        return await self.logs.futures.begin(self.log, source, target)

    async def move(self) -> bool:
        """Move the log to the other directory."""
        future = await self.begin()
        copying = ReplicaCopy(future)
        while not copying.is_near:
            await copying.copy_slice()
        await future.copy.flush()
        self.append(2)
        # The copy does not have what is promised now.
        await self.log.flush()
        self.note()
        return await self.logs.futures.exchange(future, copying)

    def restarted(self, fate: str, seed: int = 0) -> MovedLog:
        """The broker's next life: after a kill, or a loss of power."""
        if fate == "kill":
            self.disk.killed()
        else:
            self.disk.power_cut(seed, ordered=fate == "ordered")
        return MovedLog(BusyDisk(self.disk.files))

    def names(self) -> list[str]:
        """What lies in both data directories and is a partition's or was one's."""
        return [
            f"{path}/{name}"
            for path in self.broker.paths
            for name in self.broker.entries(path)
            if name.startswith(PARTITION.topic)
        ]

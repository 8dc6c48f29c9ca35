"""A broker's data directories on one disk, opened and closed as starts and stops do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.directories.directories import DirectoriesConfig, LogDirectories
from ottla.broker.log.directories.opening import open_directories
from ottla.broker.log.storage.settings import LogSettings
from ottla.protocol.ids import TopicPartition
from tests.broker.log.crash_disk import CrashDisk, ManualClock
from tests.broker.log.log_under_test import Notebook, batch_at, seams_of

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog

TOPIC_ID = bytes(range(16))
SETTINGS = LogSettings(segment_bytes=600, index_interval_bytes=100)


class BrokerDisk:
    """A broker's directories on one disk, opened and closed as starts and stops do."""

    def __init__(self, count: int = 1, disk: CrashDisk | None = None) -> None:
        self.disk = disk or CrashDisk()
        self.clock = ManualClock()
        self.paths = [f"/d{number}" for number in range(1, count + 1)]
        self.observers: dict[TopicPartition, Notebook] = {}
        self.broker_id = 1
        self.cluster_id = "wfSjsg0eT1qLbH2On6Cxwg"

    def open_as(self, partition: TopicPartition) -> tuple[LogSettings, Notebook]:
        self.observers[partition] = Notebook()
        return SETTINGS, self.observers[partition]

    async def start(self) -> LogDirectories:
        config = DirectoriesConfig(self.paths, self.broker_id, self.cluster_id)
        return await open_directories(seams_of(self.disk, self.clock), config, self.open_as)

    def kill(self) -> None:
        self.disk = self.disk.killed()

    def append(self, log: PartitionLog, count: int = 1) -> None:
        batch = batch_at(log.log_end_offset, count)
        log.append([batch], self.clock.now_ms())
        self.observers[log.partition].observe(batch)

    def fill(self, log: PartitionLog) -> None:
        while True:
            self.append(log)

    def entries(self, path: str) -> list[str]:
        return sorted(self.disk.files.directory(path).entries)


def partition(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)

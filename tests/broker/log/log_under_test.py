"""One log under test: its seams, batches, and an observer that records the calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.recovery.loading import Known, load_log
from ottla.broker.log.storage.directory_services import LogDirectoryServices, OpenSegments
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.log.storage.settings import LogSettings
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.batch import RecordBatch, iterate_batches, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from tests.broker.log.crash_disk import CrashDisk, ManualClock
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.protocol.ports import Clock, Disk, Offload, Random

Result = TypeVar("Result")

PARTITION = TopicPartition("orders", 0)
DIRECTORY = "/data/orders-0"
START_MS = 1_700_000_000_000


class InlineOffload:
    """``ports.Offload`` that does the work at once."""

    def run(self, function: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        return _answer(function(*arguments))


async def _answer(result: Result) -> Result:
    return result


class Seams(NamedTuple):
    """The part of ``ports.Ports`` that logs need."""

    clock: Clock
    random: Random
    disk: Disk
    offload: Offload


def seams_of(disk: Disk, clock: Clock | None = None) -> Seams:
    return Seams(clock or ManualClock(), SimRandom(7), disk, InlineOffload())


class Notebook:
    """``LogObserver``: remembers the last offset of each producer, and every leader epoch."""

    def __init__(self) -> None:
        self.producers: dict[int, int] = {}
        self.epochs: list[tuple[int, int]] = []
        self.observed: list[int] = []
        self.calls: list[str] = []
        self.has_markers = False

    def reset(self) -> None:
        self.producers = {}
        self.calls.append("reset")

    def load_snapshot(self, snapshot: bytes) -> bool:
        try:
            entries = json.loads(snapshot)
        except ValueError:
            return False
        self.producers = {int(producer_id): offset for producer_id, offset in entries.items()}
        self.calls.append("load_snapshot")
        return True

    def snapshot(self) -> bytes:
        return json.dumps(self.producers).encode()

    @property
    def has_seen_markers(self) -> bool:
        return self.has_markers

    @property
    def settled_offset(self) -> int:
        return 0

    def load_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        self.epochs = list(entries)

    def leader_epochs(self) -> Sequence[tuple[int, int]]:
        return self.epochs

    def observe(self, batch: RecordBatch) -> tuple[int, int, int, int] | None:
        self.observed.append(batch.base_offset)
        if batch.leader_epoch >= 0 and (not self.epochs or batch.leader_epoch > self.epochs[-1][0]):
            self.epochs.append((batch.leader_epoch, batch.base_offset))
        if batch.is_control:
            first = self.producers.get(batch.producer_id, batch.base_offset)
            return batch.producer_id, first, batch.base_offset, batch.base_offset + 1
        if batch.producer_id >= 0:
            self.producers[batch.producer_id] = batch.last_offset
        return None

    def truncated(self, log_end_offset: int) -> None:
        self.epochs = [entry for entry in self.epochs if entry[1] < log_end_offset]
        self.calls.append(f"truncated {log_end_offset}")

    def log_start_moved(self, log_start_offset: int) -> None:
        self.calls.append(f"log_start_moved {log_start_offset}")


def batch_at(
    offset: int,
    count: int = 1,
    *,
    value: bytes = b"v" * 20,
    timestamp: int = START_MS,
    options: BatchOptions | None = None,
) -> RecordBatch:
    """A stamped batch of that many records, at consecutive offsets and milliseconds."""
    entries = [(timestamp + number, b"k", value, ()) for number in range(count)]
    options = (options or BatchOptions(leader_epoch=0))._replace(base_offset=offset)
    return parse_batch(bytearray(encode_batch(entries, options)))


class LogUnderTest:
    """One log at a time in one directory, on a disk that survives it."""

    def __init__(self, disk: CrashDisk | None = None, settings: LogSettings | None = None) -> None:
        self.disk = disk or CrashDisk()
        self.clock = ManualClock()
        self.settings = settings or LogSettings()
        self.home = self.make_home()
        self.observer = Notebook()

    def make_home(self) -> LogDirectoryServices:
        return LogDirectoryServices(
            seams_of(self.disk, self.clock), DirectoryHealth(self.disk, "/data"), OpenSegments()
        )

    async def open(self, known: Known = Known()) -> PartitionLog:  # noqa: B008
        """Load the log that lies in the directory, as after a start."""
        self.disk.make_directory(DIRECTORY)
        self.home = self.make_home()
        self.observer = Notebook()
        log = PartitionLog(self.home, DIRECTORY, PARTITION, None, self.settings, self.observer)
        await load_log(log, known)
        return log

    def append(self, log: PartitionLog, count: int = 1, **fields: object) -> RecordBatch:
        """Append one batch at the end, observed as its appender must do."""
        batch = batch_at(log.log_end_offset, count, **fields)  # type: ignore[arg-type]
        log.append([batch], self.clock.now_ms())
        self.observer.observe(batch)
        return batch

    def cut_power(self, seed: int = 1, *, ordered: bool = True) -> None:
        self.disk = self.disk.power_cut(seed, ordered=ordered)

    def kill(self) -> None:
        self.disk = self.disk.killed()

    def names(self, suffix: str = "") -> list[str]:
        """Names in the partition's directory."""
        return sorted(
            name for name in self.disk.files.directory(DIRECTORY).entries if name.endswith(suffix)
        )

    def content(self, name: str) -> bytearray:
        """The bytes of a file, to look at or to spoil."""
        return self.disk.files.file(f"{DIRECTORY}/{name}").data


def read_all(log: PartitionLog, max_bytes: int = 1 << 20) -> list[tuple[int, int, bytes]]:
    """(base offset, last offset, bytes) of every batch from the log start to the end."""
    found: list[tuple[int, int, bytes]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes, log.log_end_offset, at_least_one=True)
        if read.region is None:
            break
        found += [
            (batch.base_offset, batch.last_offset, bytes(batch.view))
            for batch in iterate_batches(read.region.read())
        ]
        assert read.next_offset > offset
        offset = read.next_offset
    return found

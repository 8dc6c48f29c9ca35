"""One compacted partition on a disk that survives it, with a cleaner, written to by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.cleaner.cleaner import Cleaning
from ottla.broker.cleaner.settings import CleaningSettings
from ottla.broker.engine.purgatory import Purgatory
from ottla.broker.engine.timing_wheel import TimingWheel
from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.recovery.loading import Known, load_log
from ottla.broker.log.storage.directory_services import LogDirectoryServices, OpenSegments
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.metadata.topic_settings import topic_settings
from ottla.broker.partitions.partition import PartitionRuntime
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.leading import PartitionLeadership, ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.roles import LogBounds
from ottla.coordinator.configs.configs import ConfigSources, topic_config
from ottla.protocol.records.batch import RecordBatch, iterate_batches, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.control import (
    ControlType,
    TransactionMarker,
    encode_marker,
    read_control_type,
)
from ottla.protocol.records.record import Record, read_records
from tests.broker.log.crash_disk import CrashDisk, ManualClock
from tests.broker.log.log_under_test import DIRECTORY, PARTITION, seams_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Clock, Disk, Worker

START_MS = 1_700_000_000_000
Pair = tuple[bytes | None, bytes | None]
CONFIGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


class CleanSeams(NamedTuple):
    """The part of ``ports.Ports`` that the cleaner needs."""

    clock: Clock
    disk: Disk
    worker: Worker | None = None


class CleanRoom:
    """``await open()`` first, and again after a kill or a power cut of ``disk``."""

    def __init__(self, disk: CrashDisk | None = None, **configs: str) -> None:
        self.disk = disk or CrashDisk()
        self.clock = ManualClock()
        self.configs = {
            **CONFIGS,
            **{name.replace("_", "."): value for name, value in configs.items()},
        }
        self.settings = CleaningSettings()
        self.sequences: dict[int, int] = {}
        self.watermark: int | None = None

    async def open(self, known: Known = Known()) -> PartitionLog:  # noqa: B008
        """Load the log and lead it."""
        self.disk.make_directory(DIRECTORY)
        self.history = ReplicaHistory()
        topic = topic_settings(topic_config(self.configs, ConfigSources()))
        home = LogDirectoryServices(
            seams_of(self.disk, self.clock), DirectoryHealth(self.disk, "/data"), OpenSegments()
        )
        self.log = PartitionLog(home, DIRECTORY, PARTITION, None, topic.log, self.history)
        await load_log(self.log, known)
        end = self.log.log_end_offset
        bounds = LogBounds(self.log.log_start_offset, end, end)
        self.replica = Replica(1, self.history, ReplicaLimits(), bounds)
        waiting = Purgatory(TimingWheel(self.clock), lambda _callback: None)
        self.one = PartitionRuntime(PARTITION, self.log, self.replica, topic, waiting, self.clock)
        self.replica.become_leader(PartitionLeadership(1, 0, 0, (1,), (1,)), self.clock.now_ms())
        self.cleaning = Cleaning(
            [self.one], CleanSeams(self.clock, self.disk), lambda: self.settings
        )
        return self.log

    # ---- writing ----

    def write(
        self,
        *pairs: Pair,
        producer_id: int = -1,
        transactional: bool = False,
        options: BatchOptions | None = None,
    ) -> RecordBatch:
        """One batch of keys and values at the log's end."""
        options = options or BatchOptions()
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + len(pairs)
            options = options._replace(
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=transactional,
            )
        at_ms = self.clock.wall_ms()
        entries = [(at_ms + number, *pair, ()) for number, pair in enumerate(pairs)]
        return self.append(encode_batch(entries, options))

    def mark(self, producer_id: int, *, commit: bool) -> RecordBatch:
        """End the producer's transaction."""
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        return self.append(
            encode_marker(TransactionMarker(producer_id, 0, kind, 0), self.clock.wall_ms())
        )

    def append(self, content: bytes) -> RecordBatch:
        batch = parse_batch(bytearray(content))
        batch.stamp(self.log.log_end_offset, self.replica.leader_epoch)
        now_ms = self.clock.now_ms()
        self.log.append([batch], now_ms)
        aborted = self.history.observe(batch)
        self.replica.on_appended(self.log.log_end_offset, now_ms)
        if aborted is not None:
            self.log.append_aborted(AbortedTransaction(*aborted))
        return batch

    def roll(self) -> None:
        """Seal what was written, so that it may be cleaned."""
        if self.log.log_end_offset > self.log.active.base_offset:
            self.log.roll(self.log.log_end_offset, self.clock.now_ms())

    async def clean(self) -> bool:
        """Clean now, however little there is to do."""
        return await self.cleaning.clean(self.one)

    async def seal_and_clean(self) -> bool:
        self.roll()
        return await self.clean()

    # ---- reading ----

    def batches(self, offset: int | None = None) -> list[RecordBatch]:
        """What a reader gets that begins there, fetch after fetch."""
        found: list[RecordBatch] = []
        offset = self.log.log_start_offset if offset is None else offset
        while offset < self.log.log_end_offset:
            read = self.log.read(offset, 300, self.log.log_end_offset, at_least_one=True)
            assert read.region is not None, offset
            found += iterate_batches(read.region.read())
            assert found[-1].next_offset > offset
            offset = max(read.next_offset, found[-1].next_offset)
        return found

    def records(self, offset: int = 0) -> list[Record]:
        """What a read_uncommitted consumer sees from there on."""
        return [
            record
            for batch in self.batches(max(offset, self.log.log_start_offset))
            if not batch.is_control
            for record in read_records(batch)
            if record.offset >= offset
        ]

    def values(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(one.offset, one.key, one.value) for one in self.records()]

    def committed(self, offset: int = 0) -> list[Record]:
        """What a read_committed consumer sees, which skips aborted records itself."""
        end = self.replica.last_stable_offset
        offset = max(offset, self.log.log_start_offset)
        rows = sorted(self.log.aborted_transactions(offset, end), key=lambda row: row.first_offset)
        hidden: set[int] = set()
        seen: list[Record] = []
        for batch in self.batches(offset):
            if batch.base_offset >= end:
                break
            while rows and rows[0].first_offset <= batch.last_offset:
                hidden.add(rows.pop(0).producer_id)
            if batch.is_control:
                if batch.record_count and read_control_type(batch) is ControlType.ABORT:
                    hidden.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in hidden):
                seen += [one for one in read_records(batch) if one.offset >= offset]
        return seen


def latest(records: Sequence[Record]) -> dict[bytes, tuple[int, bytes | None]]:
    """The last record of every key, as a table that is read from a topic."""
    return {one.key: (one.offset, one.value) for one in records if one.key is not None}


def living(records: Sequence[Record]) -> dict[bytes, tuple[int, bytes | None]]:
    """As ``latest`` without deleted keys."""
    return {key: found for key, found in latest(records).items() if found[1] is not None}

"""The log together with the machine that observes it: what a crash must not change."""

from __future__ import annotations

import pytest

from ottla.broker.log.health import DirectoryHealth
from ottla.broker.log.home import LogHome, OpenSegments
from ottla.broker.log.loading import Known, load_log
from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.settings import LogSettings
from ottla.broker.log.txn_index import AbortedTransaction
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.snapshots import decode_snapshot
from ottla.protocol.records.batch import RecordBatch, parse_batch
from ottla.protocol.records.builder import BatchOptions
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.log.bench import DIRECTORY, PARTITION, batch_at, seams_of
from tests.broker.log.crash_disk import CrashDisk
from tests.simulation.random import SimRandom

SETTINGS = LogSettings(segment_bytes=1500, index_interval_bytes=200)


async def opened(disk: CrashDisk, recovery_point: int) -> tuple[PartitionLog, ReplicaHistory]:
    disk.make_directory(DIRECTORY)
    home = LogHome(seams_of(disk), DirectoryHealth(disk, "/data"), OpenSegments())
    history = ReplicaHistory()
    log = PartitionLog(home, DIRECTORY, PARTITION, None, SETTINGS, history)
    await load_log(log, Known(recovery_point))
    return log, history


def producers_of(history: ReplicaHistory) -> list[tuple[int, ...]]:
    """All that judging depends on; the time is for expiry only, and a marker may set it back."""
    entries = decode_snapshot(history.producers.snapshot())
    return [tuple(entry._replace(timestamp=0)) for entry in entries]


def marker(offset: int, producer_id: int, epoch: int, *, commits: bool) -> RecordBatch:
    kind = ControlType.COMMIT if commits else ControlType.ABORT
    made = TransactionMarker(producer_id, 0, kind, 0)
    return parse_batch(bytearray(encode_marker(made, 1_700_000_000_000, offset, epoch)))


async def lived(seed: int) -> tuple[CrashDisk, PartitionLog, ReplicaHistory]:
    """Producers with and without transactions, epochs, flushes and truncations."""
    random = SimRandom(seed)
    disk = CrashDisk()
    log, history = await opened(disk, 0)
    sequences = [0, 0, 0]
    is_open = [False, False, False]
    epoch = 0
    for _ in range(60):
        producer = random.below(3)
        offset = log.log_end_offset
        if producer and is_open[producer] and random.chance(0.3):
            batch = marker(offset, producer, epoch, commits=random.chance(0.5))
            is_open[producer] = False
        else:
            count = 1 + random.below(3)
            options = BatchOptions(
                leader_epoch=epoch,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequences[producer],
                is_transactional=producer > 0,
            )
            batch = batch_at(offset, count, options=options)
            sequences[producer] += count
            is_open[producer] = producer > 0
        log.append([batch], 0)
        aborted = history.observe(batch)
        if aborted is not None:
            log.append_aborted(AbortedTransaction(*aborted))
        if random.chance(0.05):
            epoch += 1
        if random.chance(0.1):
            await log.flush()
    return disk, log, history


@pytest.mark.parametrize("seed", range(12))
async def test_a_kill_changes_neither_producers_nor_epochs_nor_aborted_transactions(
    seed: int,
) -> None:
    """Idempotence and read_committed rest on what is rebuilt here (hazards T-05 to T-08)."""
    disk, log, history = await lived(seed)
    again, found = await opened(disk.killed(), log.recovery_point)

    assert producers_of(found) == producers_of(history)
    assert found.epochs.entries == history.epochs.entries
    end = log.log_end_offset
    assert again.aborted_transactions(0, end) == log.aborted_transactions(0, end)


@pytest.mark.parametrize("seed", range(12))
async def test_a_truncation_is_as_if_the_rest_had_never_been(seed: int) -> None:
    """A follower that cut its log must judge what it is sent like one that never had more."""
    disk, log, history = await lived(seed)
    end = await log.truncate_to(log.log_end_offset * 2 // 3)
    _, fresh = await opened(disk.killed(), 0)

    assert producers_of(fresh) == producers_of(history)
    assert fresh.epochs.entries == history.epochs.entries
    assert all(entry.last_offset < end for entry in log.aborted_transactions(0, 10**6))

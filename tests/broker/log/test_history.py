"""The log together with the machine that observes it: what a crash must not change."""

from __future__ import annotations

import pytest

from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.recovery.clean_mark import CleanLog
from ottla.broker.log.recovery.loading import Known, load_log
from ottla.broker.log.storage.directory_services import LogDirectoryServices, OpenSegments
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.snapshots import decode_snapshot
from ottla.protocol.records.batch import RecordBatch, parse_batch
from ottla.protocol.records.builder import BatchOptions
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from tests.broker.log.crash_disk import CrashDisk
from tests.broker.log.log_under_test import DIRECTORY, PARTITION, batch_at, seams_of
from tests.simulation.world.random import SimRandom

SETTINGS = LogSettings(segment_bytes=1500, index_interval_bytes=200)


async def opened(
    disk: CrashDisk, recovery_point: int, known: Known | None = None
) -> tuple[PartitionLog, ReplicaHistory]:
    disk.make_directory(DIRECTORY)
    home = LogDirectoryServices(seams_of(disk), DirectoryHealth(disk, "/data"), OpenSegments())
    history = ReplicaHistory()
    log = PartitionLog(home, DIRECTORY, PARTITION, None, SETTINGS, history)
    await load_log(log, known or Known(recovery_point))
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


def transactional(epoch: int, sequence: int) -> BatchOptions:
    return BatchOptions(
        leader_epoch=0,
        producer_id=1,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


async def lived_in_segments() -> tuple[CrashDisk, PartitionLog, ReplicaHistory]:
    """Producer 1 has a transaction in each segment, of three batches and a marker at the end."""
    disk = CrashDisk()
    log, history = await opened(disk, 0)
    for segment in range(4):
        for number in range(4):
            offset = 4 * segment + number
            one = batch_at(offset, value=b"v" * 400, options=transactional(segment, number))
            batch = one if number < 3 else marker(offset, 1, segment, commits=segment != 1)
            log.append([batch], 0)
            aborted = history.observe(batch)
            if aborted is not None:
                log.append_aborted(AbortedTransaction(*aborted))
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8, 12]
    return disk, log, history


async def stopped(log: PartitionLog) -> CleanLog:
    assert await log.close()
    return CleanLog(log.log_end_offset, log.active.base_offset, log.active.size_bytes, 1)


def stable_offsets(history: ReplicaHistory, watermarks: range) -> list[int]:
    """Where read_committed readers stop, while the high watermark rises."""
    transactions = history.producers.transactions
    found = []
    for high_watermark in watermarks:
        transactions.on_high_watermark(high_watermark)
        found.append(transactions.last_stable_offset(high_watermark))
    return found


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("watermark", [3, 5, 7, 12, 15, None])
async def test_after_a_start_an_end_above_the_watermark_is_not_settled(
    watermark: int | None, *, is_clean: bool
) -> None:
    """A follower stops between a marker and the word that it is replicated. Were the transaction
    settled at its next start, records would be shown whose end the next leader lacks (T-17)."""
    disk, log, _ = await lived_in_segments()
    await log.flush()
    clean = await stopped(log) if is_clean else None
    known = Known(log.log_end_offset, 0, clean, high_watermark=watermark)
    _, found = await opened(disk.killed(), 0, known)

    watermarks = range(watermark or 0, 17)
    # One that reaches a marker has not passed it.
    assert stable_offsets(found, watermarks) == [4 * (each // 4) for each in watermarks]


async def test_after_a_truncation_an_end_above_the_watermark_is_not_settled() -> None:
    """The rest of a follower's log may hold markers that are not known to be replicated."""
    _, log, history = await lived_in_segments()
    history.producers.transactions.on_high_watermark(7)
    await log.truncate_to(13)

    assert stable_offsets(history, range(7, 13)) == [4, 8, 8, 8, 8, 12]


@pytest.mark.parametrize(("watermark", "observed_from"), [(11, 8), (15, 12), (16, 19), (18, 19)])
async def test_after_a_clean_stop_records_are_read_again_only_for_an_end_above_the_watermark(
    watermark: int, observed_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each follower lags behind by a fetch: to read its newest segment at every start would take
    thousands of partitions minutes."""
    disk, log, history = await lived_in_segments()
    for number in range(3):
        batch = batch_at(log.log_end_offset, options=transactional(4, number))
        log.append([batch], 0)
        history.observe(batch)
    clean = await stopped(log)
    observed: list[int] = []
    observe = ReplicaHistory.observe

    def noted(self: ReplicaHistory, batch: RecordBatch) -> tuple[int, int, int, int] | None:
        observed.append(batch.base_offset)
        return observe(self, batch)

    monkeypatch.setattr(ReplicaHistory, "observe", noted)
    known = Known(log.log_end_offset, 0, clean, high_watermark=watermark)
    await opened(disk.killed(), 0, known)

    assert observed == list(range(observed_from, 19))

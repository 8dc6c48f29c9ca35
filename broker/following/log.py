"""The follower's log of a partition: makes it a copy of the leader's log.

Before every change it checks that the leader that answered is still the one followed, with no
``await`` between check and change (hazards R-06, R-07). While a log is being truncated its
partition serves no requests, because its producer and transaction states are being rebuilt.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.following.batches import AppendLimits, runs_of
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.replica.partition import NO_EPOCH
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.broker.following.steps import LeaderAnswer
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch

logger = logging.getLogger("ottla.replication")


class TruncatedRecords(NamedTuple):
    """Records that were removed because the leader does not have them."""

    cut_count: int = 0
    # Number of those records that were known to be committed.
    lost_count: int = 0


NO_CUT = TruncatedRecords()


def may_change(partition: PartitionRuntime, leader_epoch: int) -> bool:
    """Whether answers of a leader with that epoch may still change this log."""
    return partition.is_open and partition.replica.follows(leader_epoch)


def append_fetched(
    partition: PartitionRuntime, runs: list[list[RecordBatch]], high_watermark: int, now_ms: float
) -> int:
    """Append the fetched bytes unchanged, and update the high watermark.

    The caller has just checked ``may_change``. Returns the bytes written. Raises
    KafkaError(KAFKA_STORAGE_ERROR); bytes written before the failure stay valid. Low disk space
    does not stop the append: a follower that stops costs more (S-11)."""
    replica, log = partition.replica, partition.log
    assert may_change(partition, replica.leader_epoch)
    history = replica.history
    written_bytes, epoch = 0, NO_EPOCH
    moved = False
    try:
        for run in runs:
            log.append(run, now_ms)
            written_bytes += sum(batch.size_bytes for batch in run)
            # Update it before the next append, which may roll the log and save them (T-04).
            for batch in run:
                if batch.producer_id == NO_PRODUCER_ID and batch.leader_epoch == epoch:
                    continue
                epoch = batch.leader_epoch
                aborted = history.observe(batch)
                if aborted is not None:
                    log.append_aborted(AbortedTransaction(*aborted))
    finally:
        partition.traffic.copied_bytes += written_bytes
        moved = replica.on_replicated(log.log_end_offset, high_watermark, replica.leader_epoch)
        if moved or written_bytes:
            # Consumers of this follower may also wait for the watermark, which only the leader
            # knows.
            partition.wake_waiters()
    return written_bytes


def fetched_runs(
    partition: PartitionRuntime, records: Buffer, leader_epoch: int
) -> list[list[RecordBatch]]:
    """Return the batches of an answer that continue the log. Raises KafkaError."""
    log = partition.log
    return runs_of(
        records, AppendLimits(log.log_end_offset, leader_epoch, log.settings.segment_bytes)
    )


async def cut_back(partition: PartitionRuntime, offset: int, leader_epoch: int) -> TruncatedRecords:
    """Truncate records that the leader does not have. Raises KafkaError, CorruptLogError."""
    before, committed = partition.log.log_end_offset, partition.replica.high_watermark

    async def cut(may_begin: Callable[[], bool]) -> None:
        await partition.log.truncate_to(offset, may_begin)

    if not await _change(partition, leader_epoch, cut):
        return NO_CUT
    end = partition.log.log_end_offset
    assert end <= before, "nothing is appended while a log is cut"
    # Routine: no producer had an acknowledgement for the last records of the old leader.
    logger.debug(
        "%s-%d is truncated from offset %d to %d, where it diverges from its leader of epoch %d",
        *partition.partition,
        before,
        end,
        leader_epoch,
    )
    if end < committed:
        # Only after an unclean election, or when several disks have lost their last writes.
        logger.error(
            "%s-%d: offsets %d to %d were committed and are lost: the leader of epoch %d does not "
            "have them",
            *partition.partition,
            end,
            committed - 1,
            leader_epoch,
        )
    return TruncatedRecords(before - end, max(0, committed - end))


async def start_over(
    partition: PartitionRuntime, offset: int, leader_epoch: int
) -> TruncatedRecords:
    """Delete all records and restart, empty, at an offset. Raises KafkaError, CorruptLogError."""
    start, end = partition.log.log_start_offset, partition.log.log_end_offset

    async def restart(may_begin: Callable[[], bool]) -> None:
        await partition.log.truncate_fully_and_start_at(offset, may_begin)

    if await _change(partition, leader_epoch, restart):
        assert partition.log.log_end_offset == offset, "it would part from its leader (R-27)"
        # An empty log loses no records; another one also loses those that the leader has deleted.
        logger.log(
            logging.INFO if start < end else logging.DEBUG,
            "%s-%d continues at offset %d, where its leader's log starts, instead of %d",
            *partition.partition,
            offset,
            end,
        )
    # The leader has deleted them, too, so no record is lost.
    return NO_CUT


async def begin_within(
    partition: PartitionRuntime,
    runs: list[list[RecordBatch]],
    told: LeaderAnswer,
    leader_epoch: int,
) -> TruncatedRecords:
    """The leader's log starts within a batch, which it sends whole: start this log there, too.

    Raises KafkaError, CorruptLogError."""
    log, batch = partition.log, runs[0][0]
    if log.log_start_offset < log.log_end_offset:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{batch} contains the log's end")
    await start_over(partition, batch.base_offset, leader_epoch)
    if may_change(partition, leader_epoch):
        now_ms = log.home.clock.now_ms()
        append_fetched(partition, runs, told.high_watermark, now_ms)
        await raise_log_start(partition, told.log_start_offset, leader_epoch)
    return NO_CUT


async def _change(
    partition: PartitionRuntime,
    leader_epoch: int,
    operation: Callable[[Callable[[], bool]], Coroutine[None, None, None]],
) -> bool:
    """Run a change that takes time; return whether it was started.

    The next role is applied only after the change is done (``OpenLog.settled``)."""
    begun = False

    def may_begin() -> bool:
        nonlocal begun
        begun = may_change(partition, leader_epoch)
        if begun:
            partition.is_open = False
            partition.wake_waiters()
        return begun

    replica, log = partition.replica, partition.log
    try:
        await operation(may_begin)
    finally:
        if begun:
            replica.on_cut(log.log_start_offset, log.log_end_offset)
            partition.wake_waiters()
    # Not after a failure, which makes the log unusable; nor if the partition was stopped meanwhile.
    if begun and replica.follows(leader_epoch):
        assert not partition.is_open, "it was served while its history was being rebuilt (T-07)"
        partition.is_open = True
    return begun


async def raise_log_start(partition: PartitionRuntime, offset: int, leader_epoch: int) -> None:
    """Delete the records that the leader has deleted. Raises KafkaError."""
    if may_change(partition, leader_epoch):
        await partition.log.delete_records_before(min(offset, partition.replica.high_watermark))
        partition.log_was_cut()

"""The outcome of an append to one partition, or of a refused one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.producer import AppendAction
from ottla.broker.replica.verification import judge_batch
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.broker.replica.partition import Replica
    from ottla.broker.replica.producer import AppendVerdict
    from ottla.broker.replica.refusals import Refusals
    from ottla.protocol.records.batch import RecordBatch

NOTHING = -1
# Bound once: reading an enumeration's member costs as much as a call.
_NONE = ErrorCode.NONE
_DUPLICATE = AppendAction.DUPLICATE
_REFUSE = AppendAction.REFUSE


@dataclass(slots=True)
class AppendOutcome:
    """The append is replicated when the high watermark reaches ``next_offset`` in
    ``leader_epoch``."""

    error_code: ErrorCode = ErrorCode.NONE
    base_offset: int = NOTHING
    next_offset: int = NOTHING
    log_append_time_ms: int = NOTHING
    log_start_offset: int = NOTHING
    leader_epoch: int = NOTHING
    error_message: str | None = None


def refused(log: PartitionLog, error: ErrorCode, message: str | None = None) -> AppendOutcome:
    """The outcome of a refused batch: no record was written."""
    return AppendOutcome(error, log_start_offset=log.log_start_offset, error_message=message)


def repeated(log: PartitionLog, verdict: AppendVerdict, leader_epoch: int) -> AppendOutcome:
    """The outcome of a duplicate: the original's offset and time."""
    return AppendOutcome(
        base_offset=verdict.base_offset,
        next_offset=verdict.last_offset + 1,
        log_append_time_ms=verdict.timestamp,
        log_start_offset=log.log_start_offset,
        leader_epoch=leader_epoch,
    )


def appended(log: PartitionLog, batch: RecordBatch, append_time_ms: int = NOTHING) -> AppendOutcome:
    """The outcome of the log's last batch, which was appended in this step."""
    return AppendOutcome(
        _NONE,
        batch.base_offset,
        log.log_end_offset,
        append_time_ms,
        log.log_start_offset,
        batch.leader_epoch,
    )


def judge_producer(
    replica: Replica, log: PartitionLog, refusals: Refusals, batch: RecordBatch
) -> AppendOutcome | None:
    """Return why a leader must not append a batch with a producer id; None if it may."""
    leading = replica.leading
    assert leading is not None
    verdict = judge_batch(replica.history.producers, leading.verifications, batch)
    if verdict.action is _DUPLICATE:
        return repeated(log, verdict, replica.leader_epoch)
    if verdict.action is _REFUSE:
        error = verdict.error
        if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            error = refusals.error_behind(batch) or error
        return refused(log, error)
    if batch.is_transactional:
        # The log now contains the transaction of a producer with a pending verification.
        leading.verifications.drop(batch.producer_id)
    return None

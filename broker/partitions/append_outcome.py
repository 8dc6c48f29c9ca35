"""The outcome of an append to one partition, or of a refused one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.broker.replica.producer import AppendVerdict

NOTHING = -1


@dataclass(slots=True)
class AppendOutcome:
    """It counts once the high watermark has reached ``next_offset`` in ``leader_epoch``."""

    error_code: ErrorCode = ErrorCode.NONE
    base_offset: int = NOTHING
    next_offset: int = NOTHING
    log_append_time_ms: int = NOTHING
    log_start_offset: int = NOTHING
    leader_epoch: int = NOTHING
    error_message: str | None = None


def refused(log: PartitionLog, error: ErrorCode, message: str | None = None) -> AppendOutcome:
    """Nothing was written."""
    return AppendOutcome(error, log_start_offset=log.log_start_offset, error_message=message)


def repeated(log: PartitionLog, verdict: AppendVerdict, leader_epoch: int) -> AppendOutcome:
    """A duplicate: the offset and time of the original."""
    return AppendOutcome(
        base_offset=verdict.base_offset,
        next_offset=verdict.last_offset + 1,
        log_append_time_ms=verdict.timestamp,
        log_start_offset=log.log_start_offset,
        leader_epoch=leader_epoch,
    )

"""Maps errors of a coordinator's appends for clients and counts unreadable records."""

from __future__ import annotations

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode

# The codes tell a client whether to retry, and with which broker.
_ANSWERS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    # A group with too many members, a transaction with too many partitions: no retry makes the
    # record smaller, and the request itself was not too large.
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def answer_to(error: ErrorCode) -> ErrorCode:
    """The error code for a client whose append, or draw of a producer id, failed with ``error``."""
    return _ANSWERS.get(error, error)


@dataclass(slots=True)
class Skipped:
    """How many records of a shard were skipped, and the error of the last corrupt one."""

    unknown_count: int = 0
    corrupt_count: int = 0
    last_fault: str = ""

    def add_corrupt(self, fault: str) -> None:
        self.corrupt_count += 1
        self.last_fault = fault

"""What members of classic groups are answered, and what they are told of failed appends."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

# An append failed inside; what a member needs to know is whether, and where, to try again.
_ANSWERS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def answer_to(error: ErrorCode) -> ErrorCode:
    """What a member is told when an append failed with that error."""
    return _ANSWERS.get(error, error)


def refused_join(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """The id is the one to come again with; empty where there is none."""
    return JoinGroupResponse(error_code=error, member_id=member_id)


def refused_sync(error: ErrorCode) -> SyncGroupResponse:
    """No assignment for now."""
    return SyncGroupResponse(error_code=error)

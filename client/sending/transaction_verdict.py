"""Decides what an error means for a transactional producer. Pure.

    AGAIN        a retry may succeed in a moment
    ELSEWHERE    a retry may succeed at the current coordinator
    ABORTABLE    this transaction cannot be committed; abort it and begin another
    FORGOTTEN    the same, and the coordinator knows neither it nor the producer id any more
    FATAL        this producer cannot continue, mostly because another one has replaced it

A row of ``EVERYWHERE`` holds unless the step has a row of its own; a code without a row is AGAIN if
it is retriable, and else the step's ``OTHERWISE``. A batch comes here only after its last retry,
so PRODUCE has no AGAIN.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from ottla.protocol.errors import ErrorCode


class NextStep(Enum):
    """The request that was answered, as text for messages."""

    FIND = "finding the coordinator"
    INITIALIZE = "getting the producer id"
    ADD_PARTITIONS = "adding partitions to the transaction"
    ADD_OFFSETS = "adding a group to the transaction"
    COMMIT_OFFSETS = "sending offsets to the transaction"
    PRODUCE = "sending records"
    COMMIT = "committing the transaction"
    ABORT = "aborting the transaction"


class Judgement(IntEnum):
    """Ordered by severity: of several codes the worst counts."""

    DONE = 0
    AGAIN = 1
    ELSEWHERE = 2
    ABORTABLE = 3
    FORGOTTEN = 4
    FATAL = 5


FENCING = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})

EVERYWHERE: dict[ErrorCode, Judgement] = {
    ErrorCode.NONE: Judgement.DONE,
    ErrorCode.NOT_COORDINATOR: Judgement.ELSEWHERE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Judgement.ELSEWHERE,
    # A newer producer has the transactional id, or the coordinator has fenced this one.
    ErrorCode.INVALID_PRODUCER_EPOCH: Judgement.FATAL,
    ErrorCode.PRODUCER_FENCED: Judgement.FATAL,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Judgement.FORGOTTEN,
    ErrorCode.UNKNOWN_PRODUCER_ID: Judgement.ABORTABLE,
    ErrorCode.TRANSACTION_ABORTABLE: Judgement.ABORTABLE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Judgement.ABORTABLE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Judgement.ABORTABLE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Judgement.FATAL,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Judgement.FATAL,
    ErrorCode.INVALID_TXN_STATE: Judgement.FATAL,
    # Records that a broker had acknowledged are gone from its log.
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Judgement.FATAL,
    ErrorCode.UNSUPPORTED_VERSION: Judgement.FATAL,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Judgement.FATAL,
}

OF_STEP: dict[NextStep, dict[ErrorCode, Judgement]] = {
    NextStep.INITIALIZE: {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Judgement.FATAL,
        ErrorCode.UNKNOWN_PRODUCER_ID: Judgement.FATAL,
        # This producer has no transaction yet: its predecessor's has to be aborted, which the
        # coordinator does for the next request.
        ErrorCode.TRANSACTION_ABORTABLE: Judgement.AGAIN,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Judgement.FATAL,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Judgement.FATAL,
    },
    NextStep.COMMIT_OFFSETS: {
        # A group's coordinator answers this when it cannot write, often because it is being
        # replaced.
        ErrorCode.REQUEST_TIMED_OUT: Judgement.ELSEWHERE,
        # The members of the group have changed: this one may have been replaced (hazard T-22).
        ErrorCode.ILLEGAL_GENERATION: Judgement.ABORTABLE,
        ErrorCode.UNKNOWN_MEMBER_ID: Judgement.ABORTABLE,
        ErrorCode.FENCED_INSTANCE_ID: Judgement.ABORTABLE,
        ErrorCode.STALE_MEMBER_EPOCH: Judgement.ABORTABLE,
        ErrorCode.FENCED_MEMBER_EPOCH: Judgement.ABORTABLE,
        ErrorCode.GROUP_ID_NOT_FOUND: Judgement.ABORTABLE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE: Judgement.ABORTABLE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Judgement.ABORTABLE,
        ErrorCode.REBALANCE_IN_PROGRESS: Judgement.ABORTABLE,
    },
    NextStep.PRODUCE: {
        # The partition does not know the transaction: the coordinator has ended it, for instance.
        ErrorCode.INVALID_TXN_STATE: Judgement.ABORTABLE,
        ErrorCode.UNSUPPORTED_VERSION: Judgement.ABORTABLE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Judgement.ABORTABLE,
        ErrorCode.NOT_COORDINATOR: Judgement.ABORTABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Judgement.ABORTABLE,
    },
    NextStep.ABORT: {
        # Aborting because an abort failed would never end.
        ErrorCode.TRANSACTION_ABORTABLE: Judgement.FATAL,
        ErrorCode.UNKNOWN_PRODUCER_ID: Judgement.FATAL,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Judgement.FATAL,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Judgement.FATAL,
    },
}

OTHERWISE: dict[NextStep, Judgement] = {
    NextStep.FIND: Judgement.FATAL,
    NextStep.INITIALIZE: Judgement.FATAL,
    # One partition is refused, or not even tried because of another.
    NextStep.ADD_PARTITIONS: Judgement.ABORTABLE,
    NextStep.ADD_OFFSETS: Judgement.FATAL,
    NextStep.COMMIT_OFFSETS: Judgement.FATAL,
    NextStep.PRODUCE: Judgement.ABORTABLE,
    NextStep.COMMIT: Judgement.FATAL,
    NextStep.ABORT: Judgement.FATAL,
}


def judge_error(step: NextStep, code: ErrorCode) -> Judgement:
    """Look the code up in the tables above."""
    own = OF_STEP.get(step, {}).get(code)
    if own is not None:
        return own
    general = EVERYWHERE.get(code)
    if general is not None:
        return general
    if code.retriable and step is not NextStep.PRODUCE:
        return Judgement.AGAIN
    return OTHERWISE[step]

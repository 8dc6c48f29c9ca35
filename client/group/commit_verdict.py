"""Decides what an answer to a member's offset commit means. Pure.

DONE         the position is stored
AGAIN        a retry may succeed in a moment
ELSEWHERE    a retry may succeed at the current coordinator
REBALANCING  the group is between two assignments: retry under the next identity, unless the
             partition has been given up meanwhile
FENCED       the member that read this was replaced; another member may continue from the last
             stored position (G-02)
REFUSED      it can never succeed
"""

from __future__ import annotations

from enum import Enum

from ottla.protocol.errors import ErrorCode


class CommitVerdict(Enum):
    """The value says whether the commit is retried."""

    DONE = "stored"
    AGAIN = "again"
    ELSEWHERE = "again, elsewhere"
    REBALANCING = "again, when the group has its assignment"
    FENCED = "not a member any more"
    REFUSED = "refused"

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL = frozenset({CommitVerdict.DONE, CommitVerdict.FENCED, CommitVerdict.REFUSED})

TABLE: dict[ErrorCode, CommitVerdict] = {
    ErrorCode.NONE: CommitVerdict.DONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: CommitVerdict.AGAIN,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: CommitVerdict.AGAIN,
    # The topic may be so fresh that the coordinator does not know it yet.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: CommitVerdict.AGAIN,
    ErrorCode.NOT_COORDINATOR: CommitVerdict.ELSEWHERE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CommitVerdict.ELSEWHERE,
    # A coordinator that cannot write has often been replaced; commits are idempotent.
    ErrorCode.REQUEST_TIMED_OUT: CommitVerdict.ELSEWHERE,
    ErrorCode.NETWORK_EXCEPTION: CommitVerdict.ELSEWHERE,
    ErrorCode.REBALANCE_IN_PROGRESS: CommitVerdict.REBALANCING,
    ErrorCode.ILLEGAL_GENERATION: CommitVerdict.FENCED,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitVerdict.FENCED,
    ErrorCode.FENCED_INSTANCE_ID: CommitVerdict.FENCED,
    ErrorCode.STALE_MEMBER_EPOCH: CommitVerdict.FENCED,
    ErrorCode.FENCED_MEMBER_EPOCH: CommitVerdict.FENCED,
    ErrorCode.GROUP_ID_NOT_FOUND: CommitVerdict.FENCED,
}


def judge_commit(code: ErrorCode) -> CommitVerdict:
    """Look the code up; a code without an entry is retried if it is retriable."""
    known = TABLE.get(code)
    if known is not None:
        return known
    return CommitVerdict.AGAIN if code.retriable else CommitVerdict.REFUSED

"""Deciding what a broker's answer to a batch means."""

from __future__ import annotations

import pytest

from ottla.client.sending.verdict import BatchVerdict, judge
from ottla.protocol.errors import ErrorCode

OLDEST = {"is_oldest": True, "follows_gap": False}
AFTER_GAP = {"is_oldest": True, "follows_gap": True}
BEHIND = {"is_oldest": False, "follows_gap": False}


@pytest.mark.parametrize(
    ("code", "oldest", "after_gap", "behind"),
    [
        (ErrorCode.NONE, BatchVerdict.DELIVERED, BatchVerdict.DELIVERED, BatchVerdict.DELIVERED),
        (
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            BatchVerdict.DELIVERED,
            BatchVerdict.DELIVERED,
            BatchVerdict.DELIVERED,
        ),
        (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            BatchVerdict.FAILED_AND_RENUMBER,
            BatchVerdict.RENUMBER,
            BatchVerdict.AGAIN,
        ),
        (
            ErrorCode.UNKNOWN_PRODUCER_ID,
            BatchVerdict.RENUMBER,
            BatchVerdict.RENUMBER,
            BatchVerdict.AGAIN,
        ),
        (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            BatchVerdict.FAILED_AND_FORGET,
            BatchVerdict.FAILED_AND_FORGET,
            BatchVerdict.FAILED_AND_FORGET,
        ),
        (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            BatchVerdict.AGAIN,
            BatchVerdict.AGAIN,
            BatchVerdict.AGAIN,
        ),
        (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            BatchVerdict.AGAIN_ELSEWHERE,
            BatchVerdict.AGAIN_ELSEWHERE,
            BatchVerdict.AGAIN_ELSEWHERE,
        ),
        (
            ErrorCode.MESSAGE_TOO_LARGE,
            BatchVerdict.FAILED,
            BatchVerdict.FAILED,
            BatchVerdict.FAILED,
        ),
        (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            BatchVerdict.FAILED,
            BatchVerdict.FAILED,
            BatchVerdict.FAILED,
        ),
    ],
)
def test_numbered_batches_are_judged_by_the_table(
    code: ErrorCode, oldest: BatchVerdict, after_gap: BatchVerdict, behind: BatchVerdict
) -> None:
    """Hazard T-08: a wrong reading of one code costs exactly-once."""
    verdicts = [judge(code, is_numbered=True, **case) for case in (OLDEST, AFTER_GAP, BEHIND)]

    assert verdicts == [oldest, after_gap, behind]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ],
)
def test_sequence_errors_mean_nothing_special_without_a_sequence(code: ErrorCode) -> None:
    """A broker that answers so has made a mistake, and trying again would repeat it."""
    assert judge(code, is_numbered=False, **OLDEST) is BatchVerdict.FAILED

"""What a broker's answer to a batch means."""

from __future__ import annotations

import pytest

from ottla.client.sending.verdict import Verdict, judge
from ottla.protocol.errors import ErrorCode

OLDEST = {"is_oldest": True, "follows_gap": False}
AFTER_GAP = {"is_oldest": True, "follows_gap": True}
BEHIND = {"is_oldest": False, "follows_gap": False}


@pytest.mark.parametrize(
    ("code", "oldest", "after_gap", "behind"),
    [
        (ErrorCode.NONE, Verdict.DELIVERED, Verdict.DELIVERED, Verdict.DELIVERED),
        (
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            Verdict.DELIVERED,
            Verdict.DELIVERED,
            Verdict.DELIVERED,
        ),
        (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            Verdict.FAILED_AND_RENUMBER,
            Verdict.RENUMBER,
            Verdict.AGAIN,
        ),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.RENUMBER, Verdict.RENUMBER, Verdict.AGAIN),
        (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            Verdict.FAILED_AND_FORGET,
            Verdict.FAILED_AND_FORGET,
            Verdict.FAILED_AND_FORGET,
        ),
        (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            Verdict.AGAIN,
            Verdict.AGAIN,
            Verdict.AGAIN,
        ),
        (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            Verdict.AGAIN_ELSEWHERE,
            Verdict.AGAIN_ELSEWHERE,
            Verdict.AGAIN_ELSEWHERE,
        ),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.FAILED, Verdict.FAILED, Verdict.FAILED),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.FAILED, Verdict.FAILED, Verdict.FAILED),
    ],
)
def test_numbered_batches_are_judged_by_the_table(
    code: ErrorCode, oldest: Verdict, after_gap: Verdict, behind: Verdict
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
    assert judge(code, is_numbered=False, **OLDEST) is Verdict.FAILED

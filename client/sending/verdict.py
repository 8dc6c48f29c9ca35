"""Decides what a broker's answer means for a produced batch and its partition. Pure.

The table, for a batch that carries a sequence; without one the sequence errors are plain failures:

    answer                          oldest, no own gap      oldest, after a gap  not the oldest
    NONE, DUPLICATE_SEQUENCE        delivered               delivered            delivered
    OUT_OF_ORDER_SEQUENCE           failed, renumber rest   renumber             wait for earlier
    UNKNOWN_PRODUCER_ID             renumber                renumber             wait for earlier
    INVALID_PRODUCER_EPOCH, FENCED  failed, take a fresh producer id
    too large, of several records   again in halves; if those are out of order though, an earlier
                                    try of the whole is in the log, and they have failed
    any retriable code              again, the metadata first if the code says so
    any other code                  failed

In a transaction nothing is renumbered, because its epoch is not the producer's to raise: what
would be renumbered fails, and ``transaction_verdict`` decides what that means.

"Failed, renumber rest" is the one case in which an acknowledged record is gone: the broker has
forgotten a batch that it had confirmed (an unclean election), and the application must be informed.
"Wait for earlier" keeps one refused batch from failing those sent right behind it (T-08).
"""

from __future__ import annotations

from enum import Enum

from ottla.protocol.errors import ErrorCode


class BatchVerdict(Enum):
    """RENUMBER resends the batch, and all behind it, under the next producer epoch."""

    DELIVERED = "delivered"
    AGAIN = "again"
    AGAIN_ELSEWHERE = "again, after asking who leads"
    SPLIT = "again, in halves"
    RENUMBER = "renumber"
    FAILED = "failed"
    FAILED_AND_RENUMBER = "failed, renumber the rest"
    FAILED_AND_FORGET = "failed, take a fresh producer id"


# The topic's limit is lower than the producer's limit for a batch (KIP-126).
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
FENCING = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


IN_TRANSACTION = {
    BatchVerdict.RENUMBER: BatchVerdict.FAILED,
    BatchVerdict.FAILED_AND_RENUMBER: BatchVerdict.FAILED,
    BatchVerdict.FAILED_AND_FORGET: BatchVerdict.FAILED,
}


def judge_in_transaction(code: ErrorCode, *, is_oldest: bool) -> BatchVerdict:
    """Apply the table above to a batch of a transaction."""
    verdict = judge(code, is_numbered=True, is_oldest=is_oldest, follows_gap=False)
    return IN_TRANSACTION.get(verdict, verdict)


def judge(
    code: ErrorCode, *, is_numbered: bool, is_oldest: bool, follows_gap: bool
) -> BatchVerdict:
    """Apply the table above. ``follows_gap``: the batch numbered just before it was given up."""
    if code is ErrorCode.NONE:
        return BatchVerdict.DELIVERED
    if is_numbered:
        verdict = judge_sequence(code, is_oldest, follows_gap)
        if verdict is not None:
            return verdict
    if code.refresh_metadata:
        return BatchVerdict.AGAIN_ELSEWHERE
    return BatchVerdict.AGAIN if code.retriable else BatchVerdict.FAILED


def judge_sequence(code: ErrorCode, is_oldest: bool, follows_gap: bool) -> BatchVerdict | None:
    """Apply the rows about sequences and producers; None for any other code."""
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return BatchVerdict.DELIVERED
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        if not is_oldest:
            return BatchVerdict.AGAIN
        return BatchVerdict.RENUMBER if follows_gap else BatchVerdict.FAILED_AND_RENUMBER
    if code is ErrorCode.UNKNOWN_PRODUCER_ID:
        return BatchVerdict.RENUMBER if is_oldest else BatchVerdict.AGAIN
    if code in FENCING:
        return BatchVerdict.FAILED_AND_FORGET
    return None

"""Decides how a leader's answer changes the follower's log (KIP-101, 279, 595).

    the answer                              the follower
    is to a request of another epoch        drops it (R-06)
    the logs diverge at (epoch, end)        truncates to the last common offset and fetches again
                                            (R-03); it ignores the rest of the answer (R-08)
    records, perhaps none                   appends; then updates log start and high watermark
    out of range, and the leader's log      restarts its log there (R-27)
      starts above the fetch offset
    any other answer                        waits a little and fetches again

The high watermark never causes a truncation (R-01). A follower whose log goes beyond the leader's
end of an epoch learns where the two logs diverge; it never starts over because of that. Pure.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.replica.epochs import EpochEnd
    from ottla.broker.replica.partition import Replica


class FetchPosition(NamedTuple):
    """One partition's entry in a request; an answer is matched with it."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class LeaderAnswer(NamedTuple):
    """A leader's answer about one partition. Offsets are -1 if the answer lacks them."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
    has_records: bool = False


class LogAction(Enum):
    """The change of the log."""

    DROP = auto()
    APPEND = auto()
    TRUNCATE = auto()
    # Delete all records and restart, empty, at the offset.
    RESTART = auto()
    WAIT = auto()


class FollowerStep(NamedTuple):
    """``offset`` is where to truncate or restart. ``error`` is the reason of a wait."""

    action: LogAction
    offset: int = -1
    error: ErrorCode = ErrorCode.NONE
    has_records: bool = False


DROP = FollowerStep(LogAction.DROP)


def step_for(ask: FetchPosition, told: LeaderAnswer, replica: Replica) -> FollowerStep:
    """Decide without changing state. The caller acts at once, with no step in between (R-07)."""
    if not replica.follows(ask.leader_epoch) or replica.log_end_offset != ask.fetch_offset:
        return DROP
    if told.error is ErrorCode.OFFSET_OUT_OF_RANGE:
        return _out_of_range(ask, told, replica)
    if told.error is not ErrorCode.NONE:
        return FollowerStep(LogAction.WAIT, error=told.error)
    if told.diverging is not None:
        return _diverging(told.diverging, replica)
    return FollowerStep(LogAction.APPEND, has_records=told.has_records)


def _diverging(leader_end: EpochEnd, replica: Replica) -> FollowerStep:
    if leader_end.end_offset < 0:
        return FollowerStep(LogAction.WAIT, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    end = replica.log_end_offset
    cut = replica.history.epochs.truncation_for(leader_end, end)
    if cut.offset >= end:
        # A repeated request would get the same answer for ever.
        return FollowerStep(LogAction.WAIT, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert cut.offset >= 0
    return FollowerStep(LogAction.TRUNCATE, cut.offset)


def _out_of_range(ask: FetchPosition, told: LeaderAnswer, replica: Replica) -> FollowerStep:
    """Both logs may have lost their start; only then does the follower restart its log."""
    start = told.log_start_offset
    # An empty log has no records to lose, and no epoch that the leader could compare.
    is_empty = replica.log_start_offset == replica.log_end_offset
    if start > ask.fetch_offset or (is_empty and 0 <= start < ask.fetch_offset):
        # Only records that the leader has deleted, too, are removed (hazard R-27).
        assert is_empty or start > replica.log_end_offset
        return FollowerStep(LogAction.RESTART, start)
    return FollowerStep(LogAction.WAIT, error=told.error)

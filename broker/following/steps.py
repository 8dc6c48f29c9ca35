"""What a leader's answer about one partition means for the follower's log (KIP-101, 279, 595).

    the answer                              the follower
    is to a request of another epoch        drops it (R-06)
    the logs part at (epoch, end)           cuts to where both have the same, and asks again (R-03);
                                            nothing else of the answer counts (R-08)
    records, perhaps none                   appends; then log start and high watermark
    out of range, and the leader's log      starts over there (R-27)
      starts behind the fetch offset
    anything else                           waits a little and asks again

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
    """What a request says about one partition, and what its answer is an answer to."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class LeaderAnswer(NamedTuple):
    """What a leader says about one partition. Offsets are -1 where it says nothing."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
    has_records: bool = False


class LogAction(Enum):
    """What to do with the log."""

    DROP = auto()
    APPEND = auto()
    TRUNCATE = auto()
    # Throw everything away and go on, empty, at the offset.
    RESTART = auto()
    WAIT = auto()


class FollowerStep(NamedTuple):
    """``offset`` is where to cut or start over. ``error`` says why it waits."""

    action: LogAction
    offset: int = -1
    error: ErrorCode = ErrorCode.NONE
    has_records: bool = False


DROP = FollowerStep(LogAction.DROP)


def step_for(ask: FetchPosition, told: LeaderAnswer, replica: Replica) -> FollowerStep:
    """Decide; changes nothing. The caller acts at once, with nothing in between (R-07)."""
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
        # Asked again, it would say the same for ever.
        return FollowerStep(LogAction.WAIT, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert cut.offset >= 0
    return FollowerStep(LogAction.TRUNCATE, cut.offset)


def _out_of_range(ask: FetchPosition, told: LeaderAnswer, replica: Replica) -> FollowerStep:
    """Both logs may have lost their beginning; only that is a reason to start over."""
    start = told.log_start_offset
    # A log without records has none to lose, and no epoch by which the leader could judge it.
    is_empty = replica.log_start_offset == replica.log_end_offset
    if start > ask.fetch_offset or (is_empty and 0 <= start < ask.fetch_offset):
        # The records that go are those that the leader has deleted, too (hazard R-27).
        assert is_empty or start > replica.log_end_offset
        return FollowerStep(LogAction.RESTART, start)
    return FollowerStep(LogAction.WAIT, error=told.error)

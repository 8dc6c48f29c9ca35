"""One replica of one partition: its role and epochs, and its rules for appends and reads.

    role        append          consumers read to           high watermark
    leader      yes             high watermark, or          minimum over the maximal ISR; never
                                last stable offset          back, still while too few are in sync
    follower    from its        nothing                     what the leader says, within its own
                leader only                                 log
    none        no              nothing                     stays

A single replica is an ISR of one, with the same code. Invariant: log start <= high watermark <= log
end (hazard R-26). Nothing here does I/O: the caller appends and then reports it, with no await in
between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.fetching import GOOD, FetchVerdict
from ottla.broker.replica.leading import Leading, PartitionLeadership, ReplicaLimits
from ottla.broker.replica.roles import LogBounds, Role, RoleChange
from ottla.broker.replica.watermark import FetchIsolation, clamped_watermark, raised_watermark
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.replica.history import ReplicaHistory
    from ottla.broker.replica.progress import FollowerFetch

ACKS_ALL = -1
NO_EPOCH = -1
# Module-level names: looking up a member of an enumeration takes longer.
_LOG_END = FetchIsolation.LOG_END
_READ_COMMITTED = FetchIsolation.READ_COMMITTED
# Bound once: reading an enumeration's member costs as much as a call.
_NONE = ErrorCode.NONE


class Replica:
    """One replica; owned by the partition, which is the only writer of its log."""

    def __init__(
        self, node_id: int, history: ReplicaHistory, limits: ReplicaLimits, bounds: LogBounds
    ) -> None:
        self.node_id = node_id
        self.history = history
        self.limits = limits
        self.role = Role.NONE
        self.leader_epoch = NO_EPOCH
        # The first epoch of the present uninterrupted leadership.
        self.led_since = NO_EPOCH
        self.leadership: PartitionLeadership | None = None
        self.leading: Leading | None = None
        # Called after each change of the role and of a follower's log: the position of its next
        # fetch has changed.
        self.on_position: Callable[[], object] | None = None
        self.log_start_offset = bounds.log_start_offset
        self.log_end_offset = bounds.log_end_offset
        # Known to be flushed; used only where ``counts_flushed`` is set.
        self.flushed_offset = bounds.log_start_offset
        self.high_watermark = bounds.log_start_offset
        # A lost checkpoint means the log start, never the log end: losing it must not make records
        # committed (hazard R-26). For a log that was in use since, the history has a later
        # watermark, and no longer knows which transactions ended below it.
        known = max(bounds.high_watermark or 0, history.settled_offset)
        self._set_watermark(
            clamped_watermark(known, bounds.log_start_offset, bounds.log_end_offset)
        )

    # ---- roles ----

    @property
    def is_leader(self) -> bool:
        return self.leading is not None

    def leads_since(self, leader_epoch: int) -> bool:
        """Whether this replica has certainly been the only leader since that epoch began.

        True for the present epoch, and for the one before if it was led here, too."""
        is_next = self.led_since <= leader_epoch and self.leader_epoch - leader_epoch <= 1
        return self.leading is not None and is_next

    def follows(self, leader_epoch: int) -> bool:
        """Whether a response from the leader of that epoch may still change this log (R-06)."""
        return self.role is Role.FOLLOWER and leader_epoch == self.leader_epoch

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed readers stop."""
        stable = self.history.producers.transactions.last_stable_offset(self.high_watermark)
        assert stable <= self.high_watermark, self
        start = self.log_start_offset
        return stable if stable > start else start

    def become_leader(self, leadership: PartitionLeadership, now_ms: float) -> RoleChange:
        """Lead from the log end on, or apply a newer state of the present epoch."""
        assert leadership.leader == self.node_id
        if _is_stale(self, leadership):
            return RoleChange(ErrorCode.STALE_CONTROLLER_EPOCH)
        if self.leading is not None and leadership.leader_epoch == self.leader_epoch:
            if self.leading.update(leadership, now_ms):
                self.leadership = leadership
            return RoleChange(watermark_moved=self.maybe_raise_watermark(now_ms))
        if self.leading is None:
            self.led_since = leadership.leader_epoch
        epochs = self.history.epochs
        epochs.assign(leadership.leader_epoch, self.log_end_offset)
        start_offset = epochs.start_of(leadership.leader_epoch)
        assert start_offset is not None
        assert start_offset <= self.log_end_offset, "followers would never reach it"
        assert self.led_since <= leadership.leader_epoch
        self._enter(Role.LEADER, leadership)
        self.leading = Leading(self.node_id, leadership, start_offset, self.limits, now_ms)
        self.leading.promise_start(self.log_start_offset)
        return RoleChange(is_new_epoch=True, watermark_moved=self.maybe_raise_watermark(now_ms))

    def become_follower(self, leadership: PartitionLeadership) -> RoleChange:
        """Follow the leader, or wait for one while leader is -1.

        Nothing is truncated here: the leader's epochs decide where to truncate, never the replica's
        watermark, which may lag behind what was acknowledged (hazard R-01)."""
        assert leadership.leader != self.node_id
        if _is_stale(self, leadership):
            return RoleChange(ErrorCode.STALE_CONTROLLER_EPOCH)
        if self.role is Role.FOLLOWER and leadership.leader_epoch == self.leader_epoch:
            assert self.leadership is not None
            if leadership.partition_epoch > self.leadership.partition_epoch:
                self.leadership = leadership
            return RoleChange()
        self._enter(Role.FOLLOWER, leadership)
        return RoleChange(is_new_epoch=True)

    def resign(self) -> None:
        """Give up the role until the controller assigns one; the epochs are kept."""
        self.role = Role.NONE
        self.leadership = None
        self.leading = None
        self._position_changed()

    def _position_changed(self) -> None:
        assert self.log_start_offset <= self.log_end_offset, "a follower would ask for nonsense"
        if self.on_position is not None:
            self.on_position()

    def _enter(self, role: Role, leadership: PartitionLeadership) -> None:
        # A proof of one epoch does not hold for an earlier one (hazard R-06).
        assert leadership.leader_epoch >= self.leader_epoch
        assert (role is Role.LEADER) == (leadership.leader == self.node_id)
        self.role = role
        self.leadership = leadership
        self.leader_epoch = leadership.leader_epoch
        self.leading = None
        self._position_changed()

    def check_leader_epoch(
        self, current_leader_epoch: int, *, require_leader: bool = True
    ) -> ErrorCode:
        """Fence a request by the leader epoch of its sender; -1 if it has none (KIP-320)."""
        if self.role is Role.NONE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch > self.leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
        if require_leader and self.leading is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    # ---- writing ----

    def can_append(self, required_acks: int, *, has_lease: bool = True) -> ErrorCode:
        """Whether a produce with these acks may be appended; nothing is appended on an error.

        Without a lease, which proves that this broker is still registered, only writes that cannot
        be lost silently are accepted: acks=all, unless an unclean election could lose them (hazard
        R-19)."""
        leading = self.leading
        if leading is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not has_lease and len(leading.leadership.replicas) > 1:
            may_vanish = self.limits.unclean_leader_election and leading.is_alone
            if required_acks != ACKS_ALL or may_vanish:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if (
            required_acks == ACKS_ALL
            and leading.insync_count < self.limits.min_insync_replicas
            and leading.is_under_min_insync
        ):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return _NONE

    def on_appended(self, log_end_offset: int, now_ms: float) -> bool:
        """The leader has appended up to that offset; True if the high watermark has moved."""
        leading = self.leading
        assert leading is not None
        assert log_end_offset > self.log_end_offset
        self.log_end_offset = log_end_offset
        if leading.waits_for_followers:
            # The watermark still waits for the followers.
            return False
        if (
            leading.followers
            or leading.insync_count < self.limits.min_insync_replicas
            or self.history.producers.transactions.ended
            or self.limits.counts_flushed
        ):
            return self.maybe_raise_watermark(now_ms)
        # No other replica is in sync: a written record is committed.
        self.high_watermark = log_end_offset
        return True

    def on_flushed(self, offset: int, now_ms: float) -> bool:
        """The log is flushed up to the offset; True if the high watermark has moved.

        Followers flush before they acknowledge. If the leader's own copy counted earlier, a power
        cut of all brokers could lose records that consumers have read."""
        self.flushed_offset = min(offset, self.log_end_offset)
        return self.maybe_raise_watermark(now_ms)

    def on_replicated(
        self, log_end_offset: int, leader_high_watermark: int, leader_epoch: int
    ) -> bool:
        """This follower has appended what it fetched; True if the high watermark has moved.

        Of a response with a diverging epoch only the truncation may be used, so it must not get
        here (hazard R-08). A response from an older epoch is dropped (R-06)."""
        if not self.follows(leader_epoch):
            return False
        assert self.leading is None
        assert log_end_offset >= self.log_end_offset
        if log_end_offset != self.log_end_offset:
            self.log_end_offset = log_end_offset
            self._position_changed()
        known = min(leader_high_watermark, log_end_offset)
        return self._set_watermark(max(known, self.high_watermark))

    def on_cut(self, log_start_offset: int, log_end_offset: int) -> bool:
        """Records at the start or end of the log were removed; True if the watermark has moved.

        Only a follower's log is cut at its end, since consumers may have read a leader's
        records."""
        assert self.leading is None or log_end_offset == self.log_end_offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.flushed_offset = min(self.flushed_offset, log_end_offset)
        self._position_changed()
        return self._set_watermark(
            clamped_watermark(self.high_watermark, log_start_offset, log_end_offset)
        )

    def replication_state(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """The outcome of an append that must be replicated up to ``required_offset``.

        None while it is open. An error never means that the records are not stored: they are, and
        may still be committed (hazard R-20). ``leader_epoch`` is that of the append.

        The controller raises the epoch whenever it removes a follower from the ISR. While this
        replica has led ever since the append, in any epochs, its log was not truncated, and the
        records are committed when the high watermark has passed them. After it has followed or lost
        its role, other records may be at that offset, and only the next leader knows: clients take
        NOT_LEADER_OR_FOLLOWER for "not stored", so the error is REQUEST_TIMED_OUT."""
        if self.leading is None or leader_epoch < self.led_since:
            return ErrorCode.REQUEST_TIMED_OUT
        if self.high_watermark >= required_offset:
            return _NONE
        if self.leading.is_under_min_insync:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return None

    def maybe_raise_watermark(self, now_ms: float) -> bool:
        """Raise the high watermark if more is committed; True if it has moved.

        Called here after every event that can move it; by the caller when time passes or limits
        change."""
        leading = self.leading
        if leading is None or not leading.may_commit:
            return False
        reached = end = self.log_end_offset
        if leading.followers:
            ends = leading.counted_ends(end, now_ms)
            reached = raised_watermark(self.high_watermark, end, ends)
        if self.limits.counts_flushed:
            reached = max(self.high_watermark, min(reached, self.flushed_offset))
        assert reached >= self.high_watermark, "consumers have read up to it (REP-14)"
        return self._set_watermark(reached)

    def _set_watermark(self, high_watermark: int) -> bool:
        moved = high_watermark != self.high_watermark
        self.high_watermark = high_watermark
        assert 0 <= self.log_start_offset <= high_watermark <= self.log_end_offset, self
        self.history.producers.transactions.on_high_watermark(high_watermark)
        return moved

    def __repr__(self) -> str:
        return (
            f"Replica({self.role.name} epoch {self.leader_epoch}, "
            f"{self.log_start_offset} <= {self.high_watermark} <= {self.log_end_offset})"
        )

    # ---- reading ----

    def upper_bound(self, isolation: FetchIsolation) -> int:
        """The first offset that a reader with this isolation must not see."""
        if isolation is _LOG_END:
            return self.log_end_offset
        return self.last_stable_offset if isolation is _READ_COMMITTED else self.high_watermark

    def check_offsets_known(self) -> ErrorCode:
        """Whether ListOffsets may answer clients; a new leader's watermark may still lag.

        From a lagging watermark a consumer would conclude that records it has read do not exist
        (KIP-207)."""
        if self.leading is not None and self.high_watermark < self.leading.epoch_start_offset:
            return ErrorCode.OFFSET_NOT_AVAILABLE
        return ErrorCode.NONE

    def judge_fetch(
        self,
        fetch_offset: int,
        current_leader_epoch: int,
        last_fetched_epoch: int = NO_EPOCH,
        require_leader: bool = True,
    ) -> FetchVerdict:
        """Whether a fetcher whose log or position ends at that offset may read from there.

        Consumers may read from followers, which lag: for an offset that a follower does not have
        yet, the error is OFFSET_NOT_AVAILABLE, not OFFSET_OUT_OF_RANGE (KIP-392)."""
        if (
            self.leading is not None
            and last_fetched_epoch == NO_EPOCH
            and current_leader_epoch in (NO_EPOCH, self.leader_epoch)
            and self.log_start_offset <= fetch_offset <= self.log_end_offset
        ):
            # The usual fetch of a consumer: none of the checks below can change the result.
            return GOOD
        error = self.check_leader_epoch(current_leader_epoch, require_leader=require_leader)
        if error != ErrorCode.NONE:
            return FetchVerdict(error)
        if self.leading is None and fetch_offset > self.high_watermark:
            return FetchVerdict(ErrorCode.OFFSET_NOT_AVAILABLE)
        diverging = self.history.epochs.divergence(
            last_fetched_epoch, fetch_offset, self.log_end_offset
        )
        if fetch_offset < self.log_start_offset or (diverging and diverging.is_undefined):
            return FetchVerdict(ErrorCode.OFFSET_OUT_OF_RANGE)
        if diverging is not None:
            return FetchVerdict(diverging=diverging)
        if fetch_offset > self.log_end_offset:
            return FetchVerdict(ErrorCode.OFFSET_OUT_OF_RANGE)
        return GOOD

    def on_follower_fetch(self, fetch: FollowerFetch, now_ms: float) -> FetchVerdict:
        """Handle a follower's fetch, which acknowledges all records before its offset.

        Counted only after epoch, broker epoch and lineage were verified (hazard R-09)."""
        verdict = self.judge_fetch(
            fetch.fetch_offset, fetch.current_leader_epoch, fetch.last_fetched_epoch
        )
        leading = self.leading
        follower = None if leading is None else leading.followers.get(fetch.node_id)
        if follower is None and leading is not None and verdict.error in _OF_ASSIGNED_REPLICAS:
            # If it sends its epoch, it may know of an assignment that has not reached this leader
            # yet.
            if fetch.current_leader_epoch == NO_EPOCH:
                return FetchVerdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return FetchVerdict(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not verdict.is_good:
            return verdict
        assert leading is not None
        assert follower is not None
        if fetch.broker_epoch < follower.broker_epoch:
            return FetchVerdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        follower.broker_epoch = fetch.broker_epoch
        follower.log_start_offset = fetch.log_start_offset
        follower.on_fetch(fetch.fetch_offset, self.log_end_offset, now_ms)
        return FetchVerdict(
            watermark_moved=self.maybe_raise_watermark(now_ms),
            may_join=leading.may_join(fetch.node_id, self.high_watermark),
        )


# Verdicts that only replicas of the partition may receive.
_OF_ASSIGNED_REPLICAS = (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)


def _is_stale(replica: Replica, leadership: PartitionLeadership) -> bool:
    """Whether the controller's state is older than that of the replica or its log."""
    if leadership.leader_epoch < max(replica.leader_epoch, replica.history.epochs.latest_epoch):
        return True
    current = replica.leadership
    # An epoch has one leader; a state with another one is late or wrong.
    return (
        current is not None
        and leadership.leader_epoch == replica.leader_epoch
        and leadership.leader != current.leader
    )

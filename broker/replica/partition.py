"""One replica of one partition: its role, its epochs, and what may be appended and read.

    role        append          consumers read to           high watermark
    leader      yes             high watermark, or          minimum over the maximal ISR; never
                                last stable offset          back, still while too few are in sync
    follower    from its        nothing                     what the leader says, within its own
                leader only                                 log
    none        no              nothing                     stays

A replica that is alone is an ISR of one through the very same code. Whatever happens, log start <=
high watermark <= log end (hazard R-26). Nothing here does I/O: the caller appends first and then
says so, with nothing in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.leading import Leading, PartitionLeadership, ReplicaLimits
from ottla.broker.replica.roles import LogBounds, Role, RoleChange
from ottla.broker.replica.watermark import FetchIsolation, clamped_watermark, raised_watermark
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.replica.epochs import EpochEnd
    from ottla.broker.replica.history import ReplicaHistory
    from ottla.broker.replica.progress import FollowerFetch

ACKS_ALL = -1
NO_EPOCH = -1
# Looked up once: reading a member of an enumeration costs as much as a call.
_NONE = ErrorCode.NONE


class FetchVerdict(NamedTuple):
    """Whether a fetch may read. With ``diverging`` set it gets that instead of records."""

    error: ErrorCode = ErrorCode.NONE
    diverging: EpochEnd | None = None
    watermark_moved: bool = False
    # The follower could be in the ISR and is not: propose a change.
    may_join: bool = False

    @property
    def is_good(self) -> bool:
        return self.error == ErrorCode.NONE and self.diverging is None


GOOD = FetchVerdict()


class Replica:
    """Owned by the partition's runtime, which is the only writer of its log."""

    def __init__(
        self, node_id: int, history: ReplicaHistory, limits: ReplicaLimits, bounds: LogBounds
    ) -> None:
        self.node_id = node_id
        self.history = history
        self.limits = limits
        self.role = Role.NONE
        self.leader_epoch = NO_EPOCH
        # The first epoch of the leadership that has gone on here without a break.
        self.led_since = NO_EPOCH
        self.leadership: PartitionLeadership | None = None
        self.leading: Leading | None = None
        self.log_start_offset = bounds.log_start_offset
        self.log_end_offset = bounds.log_end_offset
        # Known to be on the disk; looked at only where flushes count.
        self.flushed_offset = bounds.log_start_offset
        self.high_watermark = bounds.log_start_offset
        # A lost checkpoint means the log start, never the log end: what was not known to be
        # committed must not become so by forgetting (hazard R-26). Of a log that was in use since
        # then the history knows more, and has forgotten which transactions ended below that.
        known = max(bounds.high_watermark or 0, history.settled_offset)
        self._set_watermark(
            clamped_watermark(known, bounds.log_start_offset, bounds.log_end_offset)
        )

    # ---- roles ----

    @property
    def is_leader(self) -> bool:
        return self.leading is not None

    def leads_since(self, leader_epoch: int) -> bool:
        """Whether this replica leads, and certainly no other has since that epoch began: it is the
        present one, or the one before and was led here, too."""
        is_next = self.led_since <= leader_epoch and self.leader_epoch - leader_epoch <= 1
        return self.leading is not None and is_next

    def follows(self, leader_epoch: int) -> bool:
        """Whether what a leader of that epoch has said may still change this log (R-06)."""
        return self.role is Role.FOLLOWER and leader_epoch == self.leader_epoch

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed readers stop."""
        stable = self.history.producers.transactions.last_stable_offset(self.high_watermark)
        return max(stable, self.log_start_offset)

    def become_leader(self, leadership: PartitionLeadership, now_ms: float) -> RoleChange:
        """Lead from the log end on, or merge what is new about an epoch that is led already."""
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
        self._enter(Role.LEADER, leadership)
        self.leading = Leading(self.node_id, leadership, start_offset, self.limits, now_ms)
        return RoleChange(is_new_epoch=True, watermark_moved=self.maybe_raise_watermark(now_ms))

    def become_follower(self, leadership: PartitionLeadership) -> RoleChange:
        """Follow whoever leads, or nobody while leader is -1.

        Nothing is truncated here: what to cut is for the leader's epochs to say and never for the
        own watermark, which may lag behind what was acknowledged (hazard R-01)."""
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
        """Have no role until the controller gives one; epochs stay known."""
        self.role = Role.NONE
        self.leadership = None
        self.leading = None

    def _enter(self, role: Role, leadership: PartitionLeadership) -> None:
        self.role = role
        self.leadership = leadership
        self.leader_epoch = leadership.leader_epoch
        self.leading = None

    def check_leader_epoch(
        self, current_leader_epoch: int, *, require_leader: bool = True
    ) -> ErrorCode:
        """Fence a request by the epoch its sender believes in; -1 believes nothing (KIP-320)."""
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
        """Whether a produce with these acks may be written; nothing is written on an error.

        Without proof that the store still knows this leader, only what cannot be lost silently is
        accepted: acks=all, unless an unclean election may pass over it (hazard R-19)."""
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
        """The leader's log ends there now; True if the high watermark has moved."""
        leading = self.leading
        assert leading is not None
        assert log_end_offset > self.log_end_offset
        self.log_end_offset = log_end_offset
        if leading.waits_for_followers:
            # Those who hold the watermark hold it still.
            return False
        if (
            leading.followers
            or leading.insync_count < self.limits.min_insync_replicas
            or self.history.producers.transactions.awaits_watermark
            or self.limits.counts_flushed
        ):
            return self.maybe_raise_watermark(now_ms)
        # Nobody else counts: what is written is committed.
        self.high_watermark = log_end_offset
        return True

    def on_flushed(self, offset: int, now_ms: float) -> bool:
        """All before the offset is on the disk; True if the high watermark has moved.

        Followers flush before they say what they have. Were the leader's own copy counted
        earlier, a power cut of all could take what consumers have read."""
        self.flushed_offset = min(offset, self.log_end_offset)
        return self.maybe_raise_watermark(now_ms)

    def on_replicated(
        self, log_end_offset: int, leader_high_watermark: int, leader_epoch: int
    ) -> bool:
        """A follower has appended what it fetched; True if the high watermark has moved.

        Of an answer that carried a diverging epoch nothing but the truncation may be used, so it
        does not come here (hazard R-08). One from an older epoch is dropped (R-06)."""
        if not self.follows(leader_epoch):
            return False
        assert log_end_offset >= self.log_end_offset
        self.log_end_offset = log_end_offset
        known = min(leader_high_watermark, log_end_offset)
        return self._set_watermark(max(known, self.high_watermark))

    def on_cut(self, log_start_offset: int, log_end_offset: int) -> bool:
        """The log lost records at its start, its end, or all; True if the watermark has moved.

        Only a follower's log is cut at its end, since what a leader wrote may have been read."""
        assert self.leading is None or log_end_offset == self.log_end_offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.flushed_offset = min(self.flushed_offset, log_end_offset)
        return self._set_watermark(
            clamped_watermark(self.high_watermark, log_start_offset, log_end_offset)
        )

    def replication_state(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """The outcome of an append that has to be replicated up to ``required_offset``.

        None while it is open. An error never says that the records are not there: they are, and
        may yet be committed (hazard R-20). ``leader_epoch`` is that of the append.

        The controller raises the epoch whenever it takes a follower out of the ISR. As long as this
        replica has led ever since the append, in whatever epochs, its log was not cut, and the
        records are committed when the high watermark has passed them. Once it has followed, or has
        no role, other records may stand at that offset, and only the next leader knows: clients
        take NOT_LEADER_OR_FOLLOWER for "not stored", so it is REQUEST_TIMED_OUT."""
        if self.leading is None or leader_epoch < self.led_since:
            return ErrorCode.REQUEST_TIMED_OUT
        if self.high_watermark >= required_offset:
            return _NONE
        if self.leading.is_under_min_insync:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return None

    def maybe_raise_watermark(self, now_ms: float) -> bool:
        """Look whether more is committed by now; True if the high watermark has moved.

        Called here after all that can move it; from outside when time passes or limits change."""
        leading = self.leading
        if leading is None or not leading.may_commit:
            return False
        reached = end = self.log_end_offset
        if leading.followers:
            ends = leading.counted_ends(end, now_ms)
            reached = raised_watermark(self.high_watermark, end, ends)
        if self.limits.counts_flushed:
            reached = max(self.high_watermark, min(reached, self.flushed_offset))
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
        """The first offset that a reader of this kind may not see."""
        if isolation is FetchIsolation.LOG_END:
            return self.log_end_offset
        if isolation is FetchIsolation.READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def check_offsets_known(self) -> ErrorCode:
        """Whether ListOffsets may answer clients: a new leader's watermark may still lag.

        Going by it, a consumer would believe that records it has read do not exist (KIP-207)."""
        if self.leading is not None and self.high_watermark < self.leading.epoch_start_offset:
            return ErrorCode.OFFSET_NOT_AVAILABLE
        return ErrorCode.NONE

    def judge_fetch(
        self,
        fetch_offset: int,
        current_leader_epoch: int,
        last_fetched_epoch: int = NO_EPOCH,
        *,
        require_leader: bool = True,
    ) -> FetchVerdict:
        """Whether somebody whose log (or position) ends at that offset may read on from it.

        Consumers may be allowed to read from followers, which lag behind what was read elsewhere:
        of what one does not know yet it does not say that it does not exist (KIP-392)."""
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
        """A follower asks for what comes after its log, and thereby acknowledges all before.

        Counted only after epoch, incarnation and lineage have been found right (hazard R-09)."""
        verdict = self.judge_fetch(
            fetch.fetch_offset, fetch.current_leader_epoch, fetch.last_fetched_epoch
        )
        leading = self.leading
        follower = None if leading is None else leading.followers.get(fetch.node_id)
        if follower is None and leading is not None and verdict.error in _OF_ASSIGNED_REPLICAS:
            # It may know of an assignment that has not reached this leader yet, if it says in which
            # epoch it follows.
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


# What a leader says of offsets is for the replicas of its partition.
_OF_ASSIGNED_REPLICAS = (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)


def _is_stale(replica: Replica, leadership: PartitionLeadership) -> bool:
    """Whether the controller's word is older than what the replica or its log has heard."""
    if leadership.leader_epoch < max(replica.leader_epoch, replica.history.epochs.latest_epoch):
        return True
    current = replica.leadership
    # One epoch has one leader; a second one named for it is a late or mistaken word.
    return (
        current is not None
        and leadership.leader_epoch == replica.leader_epoch
        and leadership.leader != current.leader
    )

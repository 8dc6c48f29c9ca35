"""The state of a replica while it leads: its followers and the in-sync set.

It lasts for one leader epoch. All follower state is from fetches in this epoch, so nothing from an
older lineage can raise the watermark (hazard R-10).
"""

from __future__ import annotations

from ottla.broker.replica.isr import ChangeOutcome, InSyncSet, IsrChange
from ottla.broker.replica.progress import ANY_LAG, FollowerProgress
from ottla.broker.replica.verification import Verifications
from ottla.broker.replica.watermark import effective_min_insync
from ottla.protocol.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class PartitionLeadership:
    """One partition's state as sent by the controller (the state znode and the assignment).

    ``leader`` is -1 while there is none. ``partition_epoch`` is the version of the state, and
    ``controller_epoch`` that of the controller that chose the leader."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    eligible_leaders: tuple[int, ...] = ()
    controller_epoch: int = 0

    def can_spare(self, node_id: int) -> bool:
        """Whether there is a leader and the broker is neither in the ISR nor an eligible leader."""
        return self.leader >= 0 and node_id not in (*self.isr, *self.eligible_leaders)


@dataclass(slots=True)
class ReplicaLimits:
    """A topic's settings for its replicas; the partition's owner updates them in place."""

    min_insync_replicas: int = 1
    lag_time_max_ms: float = 10_000
    # Messages behind its leader that put a follower out of the ISR; only Kafka 0.8 counts them.
    lag_messages_max: int = ANY_LAG
    unclean_leader_election: bool = False
    # Whether the leader's own copy counts only when flushed (``ottla.flush.before.ack``).
    counts_flushed: bool = False


class Leading:
    """Followers and in-sync set of one leader epoch; owned by the leading replica."""

    __slots__ = (
        "_limits",
        "_node_id",
        "epoch_start_offset",
        "followers",
        "in_sync",
        "insync_count",
        "leadership",
        "promised_start_offset",
        "verifications",
        "waits_for_followers",
        "watermark_due",
    )

    def __init__(
        self,
        node_id: int,
        leadership: PartitionLeadership,
        epoch_start_offset: int,
        limits: ReplicaLimits,
        now_ms: float,
    ) -> None:
        assert leadership.leader == node_id
        assert node_id in leadership.isr
        self._node_id = node_id
        self._limits = limits
        self.leadership = leadership
        self.epoch_start_offset = epoch_start_offset
        # Everything before it was deleted, and clients were told so, by this leader or an earlier.
        self.promised_start_offset = 0
        self.in_sync = InSyncSet(
            leadership.isr, leadership.partition_epoch, leadership.eligible_leaders
        )
        self.followers: dict[int, FollowerProgress] = {}
        # Transactions that producers want to begin here.
        self.verifications = Verifications()
        # Followers that received a lower watermark than this, or none in this epoch, are answered
        # at once.
        self.watermark_due = 0
        # The number of replicas certainly in sync, with this one. Read at every append.
        self.insync_count = 0
        # Whether the watermark waits for other replicas: an append alone cannot move it then.
        self.waits_for_followers = False
        self._follow(now_ms)
        self._count()

    def update(self, leadership: PartitionLeadership, now_ms: float) -> bool:
        """Apply a later state of the same leader epoch; True if it was newer."""
        assert leadership.leader_epoch == self.leadership.leader_epoch
        members = self.in_sync.committed
        news = self.in_sync.on_stored(
            leadership.isr, leadership.partition_epoch, leadership.eligible_leaders
        )
        if news:
            self.leadership = leadership
            self._follow(now_ms)
            for node_id, follower in self.followers.items():
                if node_id in members and node_id not in leadership.isr:
                    # It may have shut down: only its fetches from now on may bring it back.
                    follower.forget()
            self._count()
        # The set may be newer because of this leader's changes; the state for other brokers never
        # is.
        assert self.leadership.partition_epoch <= self.in_sync.partition_epoch
        return news

    def _follow(self, now_ms: float) -> None:
        known = self.followers
        self.followers = {
            node_id: known.get(node_id)
            or FollowerProgress(node_id, now_ms, is_member=node_id in self.leadership.isr)
            for node_id in self.leadership.replicas
            if node_id != self._node_id
        }
        assert self._node_id not in self.followers, "the leader's own copy is counted apart"

    @property
    def is_alone(self) -> bool:
        """Whether no other replica is or may be in sync."""
        return self.in_sync.maximal == (self._node_id,)

    # ---- possible other leaders ----

    @property
    def rivals(self) -> tuple[int, ...]:
        """The brokers that the controller may have elected without this leader's knowledge.

        These are the maximal ISR and the eligible leaders (KIP-966); with unclean elections, and no
        other replica in sync, all replicas."""
        electable = self._electable()
        if self.is_alone and self._limits.unclean_leader_election:
            electable.update(self.leadership.replicas)
        return tuple(sorted(electable - {self._node_id}))

    def _electable(self) -> set[int]:
        """The brokers that may be elected without data loss, this one included."""
        in_sync = self.in_sync
        electable = {*in_sync.maximal, *in_sync.eligible_leaders}
        if in_sync.pending is not None:
            electable.update(in_sync.pending.eligible_leaders)
        return electable

    def greet(self) -> None:
        """Answer the rivals' parked fetches at once: a read barrier needs their next ones."""
        for node_id in self.rivals:
            follower = self.followers.get(node_id)
            if follower is not None:
                follower.hurry()

    def is_proven_since(self, question: int) -> bool:
        """Whether every rival has proved that it followed after that question.

        A rival that is not among the known replicas cannot prove anything."""
        return all(
            (follower := self.followers.get(node_id)) is not None
            and follower.proven_question >= question
            for node_id in self.rivals
        )

    def is_forgotten_before(self, offset: int) -> bool:
        """Whether the logs of all electable brokers start at or after the offset.

        A follower that has not fetched in this epoch counts as one whose log does not."""
        return all(
            (follower := self.followers.get(node_id)) is not None
            and follower.log_start_offset >= offset
            for node_id in self._electable() - {self._node_id}
        )

    # ---- counting ----

    def _count(self) -> None:
        # A reassignment may leave ids in the ISR that have left the replica set (hazard R-30).
        replicas = self.leadership.replicas
        self.insync_count = sum(node in replicas for node in self.in_sync.certain)
        assert self.insync_count <= len(replicas), "min.insync.replicas would count a replica twice"
        self.waits_for_followers = any(node in self.followers for node in self.in_sync.maximal)

    @property
    def may_commit(self) -> bool:
        """Whether enough replicas are in sync for the watermark to move (hazards R-18, R-21).

        Not while a replica outside the ISR is eligible: it could be elected and lack later records.
        So a lowered minimum takes effect when the store has removed the eligible leaders."""
        if self.in_sync.eligible_leaders:
            return False
        return not self.is_under_min_insync

    @property
    def is_under_min_insync(self) -> bool:
        """Whether fewer replicas are certainly in sync than acks=all requires."""
        # The effective minimum is at most the configured one, so the cheap comparison comes first.
        count = self.insync_count
        return count < self._limits.min_insync_replicas and count < self.min_insync

    @property
    def min_insync(self) -> int:
        """How many replicas acks=all requires in sync: at most the replication factor."""
        limits, leadership = self._limits, self.leadership
        return effective_min_insync(limits.min_insync_replicas, len(leadership.replicas))

    def counted_ends(self, log_end_offset: int, now_ms: float) -> list[int]:
        """The log end offsets that bound the watermark: those of the maximal ISR and of joiners.

        The watermark also waits for a follower outside the ISR that keeps up. Otherwise a busy
        leader, alone in its ISR, would always be ahead of it, and it could never join."""
        if not self.followers:
            return []
        maximal = self.in_sync.maximal
        return [
            follower.log_end_offset
            for follower in self.followers.values()
            if follower.node_id in maximal
            or (
                follower.log_end_offset >= self.epoch_start_offset
                and self._keeps_up(follower, log_end_offset, now_ms)
            )
        ]

    def may_join(self, node_id: int, high_watermark: int) -> bool:
        """Whether a follower has everything that was ever acknowledged.

        The watermark of a new leader may lag behind the old one's, so the start of the leader's
        epoch counts, too: everything before it may have been committed (hazard R-11). And it has
        deleted what clients were told is deleted: it may lead next (S-19)."""
        follower = self.followers.get(node_id)
        return (
            follower is not None
            and node_id not in self.in_sync.maximal
            and follower.log_end_offset >= max(high_watermark, self.epoch_start_offset)
            and follower.log_start_offset >= self.promised_start_offset
        )

    def promise_start(self, offset: int) -> None:
        """The broker is about to tell a client that all records before the offset are deleted."""
        self.promised_start_offset = max(self.promised_start_offset, offset)

    def owes_news(self, node_id: int) -> bool:
        """Whether a follower must be sent the watermark at once."""
        follower = self.followers.get(node_id)
        return follower is not None and follower.told_watermark < self.watermark_due

    def propose(
        self,
        high_watermark: int,
        log_end_offset: int,
        now_ms: float,
        asking: int | None = None,
    ) -> IsrChange | None:
        """The next ISR change; None if none is due or one is pending.

        ``asking`` is the follower whose fetch is being handled, if its broker is registered (R-24).
        Only it may join: an earlier fetch does not prove that a follower still fetches, and while
        too few are in sync the watermark does not move, so a follower that was cut off would join
        and leave for ever (R-17)."""
        if self.in_sync.pending is not None:
            return None
        staying = tuple(
            node
            for node in self.in_sync.committed
            if not self._must_leave(node, log_end_offset, now_ms)
        )
        joining: tuple[tuple[int, int], ...] = ()
        if (
            asking is not None
            and self.may_join(asking, high_watermark)
            and self.followers[asking].is_near(log_end_offset, self._limits.lag_messages_max)
        ):
            # The store refuses another broker epoch than that of the fetch.
            joining = ((asking, self.followers[asking].broker_epoch),)
        target = staying + tuple(node for node, _ in joining)
        assert self._node_id in target or self._node_id not in self.in_sync.committed
        if not self.in_sync.differs(target, self.min_insync):
            return None
        change = self.in_sync.propose(
            target, joining, self.leadership.leader_epoch, self.min_insync
        )
        self._count()
        return change

    def on_answer(
        self, change: IsrChange, outcome: ChangeOutcome, partition_epoch: int | None = None
    ) -> bool:
        """Handle the store's answer to a proposal; True if the in-sync set has changed.

        The watermark may move then: the caller must update it."""
        changed = self.in_sync.on_answer(change, outcome, partition_epoch)
        if changed:
            self._count()
        return changed

    def _must_leave(self, node_id: int, log_end_offset: int, now_ms: float) -> bool:
        if node_id == self._node_id:
            return False
        follower = self.followers.get(node_id)
        if follower is None:
            return True
        return not self._keeps_up(follower, log_end_offset, now_ms)

    def _keeps_up(self, follower: FollowerProgress, log_end_offset: int, now_ms: float) -> bool:
        limits = self._limits
        return follower.is_caught_up(
            log_end_offset, now_ms, limits.lag_time_max_ms
        ) and follower.is_near(log_end_offset, limits.lag_messages_max)

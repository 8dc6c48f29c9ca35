"""The part of a replica that exists while it leads: its followers and the in-sync set.

Lives for one leader epoch. Everything it knows of followers was said in this epoch, so nothing
from an older lineage can raise the watermark (hazard R-10).
"""

from __future__ import annotations

from ottla.broker.replica.isr import ChangeOutcome, InSyncSet, IsrChange
from ottla.broker.replica.progress import FollowerProgress
from ottla.broker.replica.verification import Verifications
from ottla.broker.replica.watermark import effective_min_insync
from ottla.protocol.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class PartitionLeadership:
    """What the controller says about one partition (the state znode and the assignment).

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
        """Whether others lead, and have all that was committed without what that broker has."""
        return self.leader >= 0 and node_id not in (*self.isr, *self.eligible_leaders)


@dataclass(slots=True)
class ReplicaLimits:
    """Configuration of a topic as its replicas need it; changed in place by whoever owns it."""

    min_insync_replicas: int = 1
    lag_time_max_ms: float = 10_000
    unclean_leader_election: bool = False
    # Whether the leader's own copy counts from its flush on (``ottla.flush.before.ack``).
    counts_flushed: bool = False


class Leading:
    """Owned by the replica that leads."""

    __slots__ = (
        "_limits",
        "_node_id",
        "epoch_start_offset",
        "followers",
        "in_sync",
        "insync_count",
        "leadership",
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
        self.in_sync = InSyncSet(
            leadership.isr, leadership.partition_epoch, leadership.eligible_leaders
        )
        self.followers: dict[int, FollowerProgress] = {}
        # Transactions that somebody wants to begin here.
        self.verifications = Verifications()
        # Followers that were told of a lower watermark than this are to be told at once; so is who
        # was told nothing in this epoch.
        self.watermark_due = 0
        # How many certainly are in sync, this one included. Asked with every append.
        self.insync_count = 0
        # Whether the watermark is held by anybody else: an append alone cannot move it then.
        self.waits_for_followers = False
        self._follow(now_ms)
        self._count()

    def update(self, leadership: PartitionLeadership, now_ms: float) -> bool:
        """Merge what the controller says later within the same leader epoch; True if it is news."""
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
                    # Gone or going: only what it asks from now on may bring it back.
                    follower.forget()
            self._count()
        return news

    def _follow(self, now_ms: float) -> None:
        known = self.followers
        self.followers = {
            node_id: known.get(node_id)
            or FollowerProgress(node_id, now_ms, is_member=node_id in self.leadership.isr)
            for node_id in self.leadership.replicas
            if node_id != self._node_id
        }

    @property
    def is_alone(self) -> bool:
        """Whether no other replica is or may be in sync."""
        return self.in_sync.maximal == (self._node_id,)

    # ---- who could have been elected instead ----

    @property
    def rivals(self) -> tuple[int, ...]:
        """Whom a controller could have made leader after this one without its hearing of it: the
        maximal ISR and the eligible leaders (KIP-966). Where unclean elections are allowed and
        nobody else is in sync, every replica."""
        electable = self._electable()
        if self.is_alone and self._limits.unclean_leader_election:
            electable.update(self.leadership.replicas)
        return tuple(sorted(electable - {self._node_id}))

    def _electable(self) -> set[int]:
        """Who may be made leader without any loss, this one among them."""
        in_sync = self.in_sync
        electable = {*in_sync.maximal, *in_sync.eligible_leaders}
        if in_sync.pending is not None:
            electable.update(in_sync.pending.eligible_leaders)
        return electable

    def greet(self) -> None:
        """A question waits for the rivals: have what they wait for here answered."""
        for node_id in self.rivals:
            follower = self.followers.get(node_id)
            if follower is not None:
                follower.hurry()

    def is_proven_since(self, question: int) -> bool:
        """Whether every rival has shown that it followed after that question had come.

        One that is not among the replicas, as far as this leader knows, can show nothing."""
        return all(
            (follower := self.followers.get(node_id)) is not None
            and follower.proven_question >= question
            for node_id in self.rivals
        )

    def is_forgotten_before(self, offset: int) -> bool:
        """Whether everybody who may lead next without a loss has shown that its log starts at that
        offset or behind it; those of whom nothing is known have not."""
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
        self.waits_for_followers = any(node in self.followers for node in self.in_sync.maximal)

    @property
    def may_commit(self) -> bool:
        """Whether enough are in sync for the watermark to move (hazards R-18, R-21).

        Not while anybody outside could be elected who may lack what is acknowledged from now on: a
        minimum that was lowered counts when the store has forgotten those."""
        if self.in_sync.eligible_leaders:
            return False
        return not self.is_under_min_insync

    @property
    def is_under_min_insync(self) -> bool:
        """Whether fewer replicas are certainly in sync than acks=all needs."""
        # The effective minimum is never above the configured one: nearly always that says it all.
        count = self.insync_count
        return count < self._limits.min_insync_replicas and count < self.min_insync

    @property
    def min_insync(self) -> int:
        """How many replicas acks=all needs in sync: ``min.insync.replicas``, or all replicas where
        the partition has fewer than that."""
        limits, leadership = self._limits, self.leadership
        return effective_min_insync(limits.min_insync_replicas, len(leadership.replicas))

    def counted_ends(self, log_end_offset: int, now_ms: float) -> list[int]:
        """The log ends that the watermark may not pass: of the maximal ISR, and of joiners.

        A follower outside that keeps up is waited for as well. Otherwise a busy leader, alone in
        its ISR, would always be ahead of it, and it could never join."""
        if not self.followers:
            return []
        maximal = self.in_sync.maximal
        return [
            follower.log_end_offset
            for follower in self.followers.values()
            if follower.node_id in maximal
            or (
                follower.log_end_offset >= self.epoch_start_offset
                and follower.is_caught_up(log_end_offset, now_ms, self._limits.lag_time_max_ms)
            )
        ]

    def may_join(self, node_id: int, high_watermark: int) -> bool:
        """Whether a follower holds all that was ever acknowledged.

        The watermark of a new leader may lag behind that of the old one, so the start of the
        leader's own epoch counts too: all before it may have been committed (hazard R-11)."""
        follower = self.followers.get(node_id)
        return (
            follower is not None
            and node_id not in self.in_sync.maximal
            and follower.log_end_offset >= max(high_watermark, self.epoch_start_offset)
        )

    def owes_news(self, node_id: int) -> bool:
        """Whether a follower has waited long enough for what it was not told yet."""
        follower = self.followers.get(node_id)
        return follower is not None and follower.told_watermark < self.watermark_due

    def propose(
        self,
        high_watermark: int,
        log_end_offset: int,
        now_ms: float,
        asking: int | None = None,
    ) -> IsrChange | None:
        """The next change of the ISR, if one is due and none is on its way.

        ``asking`` is the follower whose fetch is being handled, if there is one and if its broker
        is registered (R-24). No other one may join: what a follower fetched earlier says nothing
        about whether it still does, and the watermark of a leader with too few in sync stands
        still, so one that was cut off would go in and out for ever (R-17)."""
        if self.in_sync.pending is not None:
            return None
        staying = tuple(
            node
            for node in self.in_sync.committed
            if not self._must_leave(node, log_end_offset, now_ms)
        )
        joining: tuple[tuple[int, int], ...] = ()
        if asking is not None and self.may_join(asking, high_watermark):
            # The store refuses another incarnation than the one that asked.
            joining = ((asking, self.followers[asking].broker_epoch),)
        target = staying + tuple(node for node, _ in joining)
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
        """Take the store's answer to a proposal; True if the in-sync set has changed.

        The watermark may move then: ask the replica to look."""
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
        return not follower.is_caught_up(log_end_offset, now_ms, self._limits.lag_time_max_ms)

"""Handles followers' fetches on the leader, and wakes their long polls.

A follower that has all records waits at the leader for more. The high watermark that its own fetch
has just moved must not wait as long, because consumers that read from followers depend on it
(hazard R-31, KIP-392). The leader sends it after a moment rather than at once: while records flow,
the next response carries the watermark along, and a separate response would double the number of
requests.

A follower requests thousands of partitions at a time, of which a few have changes. The others rest
in its session and cost no work per request, wake-up or response. A partition ends its rest itself
when a change may concern the follower. HOT.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.engine.purgatory import WaitKey
from ottla.broker.replica.leadership_proofs import NOT_PROVEN
from ottla.broker.replica.progress import FollowerFetch
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.purgatory import DelayedOperation, Purgatory
    from ottla.broker.partitions.fetch_session import PartitionKey, Session
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partition_read import FetchPlan, PartitionFetch
    from ottla.broker.replica.leadership_proofs import LeadershipProofs
    from ottla.broker.replica.leading import Leading
    from ottla.broker.replica.progress import FollowerProgress
    from ottla.protocol.ports import Clock

    Find = Callable[[PartitionFetch], PartitionRuntime | None]

# How long a moved watermark waits for records to be sent with.
NEWS_AFTER_MS = 10.0


class QuietPartition:
    """A partition of which the follower has all records. It rests in the session that requests it,
    one session per follower."""

    __slots__ = ("follower", "key", "leading", "memory", "partition", "topic_id", "wanted")

    def __init__(
        self,
        memory: QuietPartitions,
        partition: PartitionRuntime,
        leading: Leading,
        follower: FollowerProgress,
        wanted: PartitionFetch,
    ) -> None:
        self.memory = memory
        self.key = memory.key_of(wanted)
        self.partition = partition
        self.leading = leading
        self.follower = follower
        self.wanted = wanted
        # The topic id of the log, when it was found to match the request.
        self.topic_id = partition.log.topic_id

    def lasts(self, broker_epoch: int) -> bool:
        """Whether the same request was answered before and the partition has not changed since."""
        partition, leading, follower = self.partition, self.leading, self.follower
        replica = partition.replica
        return (
            replica.leading is leading
            and replica.log_end_offset == self.wanted.offset
            and follower.told_watermark >= leading.watermark_due
            and follower.told_log_start_offset == replica.log_start_offset
            and partition.is_open
            and partition.log.topic_id == self.topic_id
            and follower.asked is self.wanted
            and follower.broker_epoch == broker_epoch
            # A follower that may join the ISR is checked at each of its requests.
            and follower.node_id in leading.in_sync.committed
            and leading.followers.get(follower.node_id) is follower
        )

    @property
    def is_late(self) -> bool:
        """Whether the follower's watermark is old, but not old enough for a response."""
        return self.follower.told_watermark < self.partition.replica.high_watermark

    def end(self) -> None:
        """The partition has changed: a waiting request and the next one check it again."""
        self.memory.end(self)

    def on_watermark(self) -> None:
        """The watermark has moved, which alone does not end the rest."""
        self.memory.late[self.key] = self


class QuietPartitions:
    """The partitions of a follower's session: those at rest, and those to be checked.

    Owned by the session, which reports each change of the requested partitions."""

    def __init__(self, session: Session, waiting: Purgatory) -> None:
        self._by_id = session.ask.uses_topic_ids
        self._waiting = waiting
        # When the session was continued: counts as a fetch at the log end for all at rest.
        self.asked_ms = 0.0
        self.quiet: dict[PartitionKey, QuietPartition] = {}
        self.restless: dict[PartitionKey, None] = {key: None for key, _ in session.items()}
        # Partitions whose rest ended since the last check.
        self.ended: list[QuietPartition] = []
        # Partitions whose watermark has moved since the follower received it.
        self.late: dict[PartitionKey, QuietPartition] = {}
        self._broker_epoch: int | None = None
        # The request in progress, and the keys that it waits for.
        self.poll: FollowerPoll | None = None
        self.key = WaitKey("a fetch session's partitions at rest")

    def key_of(self, wanted: PartitionFetch) -> PartitionKey:
        """The partition as the follower names it."""
        return wanted.topic_id if self._by_id else wanted.topic, wanted.partition

    def on_request(self, plan: FetchPlan, poll: FollowerPoll, now_ms: float) -> None:
        """A request continues the session."""
        if plan.broker_epoch != self._broker_epoch:
            # Another incarnation of the follower: it may have lost records of the last one.
            self._broker_epoch = plan.broker_epoch
            for one in list(self.quiet.values()):
                self.end(one)
                plan.wanted.append(one.wanted)
        # Partitions whose rest has ended are restless, and so in the plan.
        self.ended.clear()
        self.asked_ms = now_ms
        self.poll = poll

    def begin(self, one: QuietPartition) -> None:
        """Start the rest of a partition."""
        node_id = one.follower.node_id
        known = one.partition.quiet.get(node_id)
        if known is not None:
            known.end()
        assert one.key not in self.quiet, "one of the two would never end its rest"
        one.partition.quiet[node_id] = one
        one.follower.rests_in = self
        self.quiet[one.key] = one
        self.restless.pop(one.key, None)

    def end(self, one: QuietPartition) -> None:
        """Check the partition again; the follower's waiting request does so soon."""
        self._lose(one)
        self.restless[one.key] = None
        self.ended.append(one)
        self._waiting.release(self.key)

    def take_late(self) -> list[QuietPartition]:
        """Return the partitions whose watermark must be sent; they end their rest."""
        late = [one for one in self.late.values() if self.quiet.get(one.key) is one and one.is_late]
        self.late.clear()
        for one in late:
            self._lose(one)
            self.restless[one.key] = None
        return late

    def _lose(self, one: QuietPartition) -> None:
        assert self.quiet.pop(one.key) is one
        assert one.partition.quiet.pop(one.follower.node_id) is one
        one.follower.end_rest()

    # ---- the session's side ----

    def join(self, key: PartitionKey) -> None:
        """The request adds or updates a partition."""
        one = self.quiet.get(key)
        if one is not None:
            self._lose(one)
        self.restless.setdefault(key)

    def leave(self, key: PartitionKey) -> None:
        """The request removes a partition."""
        one = self.quiet.get(key)
        if one is not None:
            self._lose(one)
        self.restless.pop(key, None)

    def close(self) -> None:
        """The session has ended."""
        for one in list(self.quiet.values()):
            self._lose(one)


class FollowerReads:
    """Owned by the reads of one broker. ``proofs`` records what fetches prove about followers."""

    def __init__(self, waiting: Purgatory, clock: Clock, proofs: LeadershipProofs) -> None:
        self._waiting = waiting
        self.clock = clock
        self._proofs = proofs
        self._moved: dict[PartitionRuntime, None] = {}

    def begin(self, plan: FetchPlan, find: Find, connection: object) -> FollowerPoll:
        """Record what a request says about the follower, before any read: the offset that it
        requests is the end of its log, if the request is valid (hazards R-09, R-10).

        Called once per request, however often the request reads. Afterwards ``plan.wanted``
        contains the partitions that may have changes; refusals are recorded there."""
        proofs = self._proofs
        memory: QuietPartitions | None = plan.quietness
        poll = FollowerPoll(plan, find, partial(proofs.on_answer, connection), self)
        now_ms = self.clock.now_ms()
        question = proofs.on_fetch(connection, now_ms) if proofs.is_open else NOT_PROVEN
        if memory is not None:
            memory.on_request(plan, poll, now_ms)
            if question:
                for one in memory.quiet.values():
                    self._prove(one.partition, one.follower, one.wanted, question)
        active: list[PartitionFetch] = []
        for wanted in plan.wanted:
            partition = find(wanted)
            if partition is None:
                active.append(wanted)
                continue
            if memory is not None and (quiet := _quiet(memory, partition, plan, wanted)):
                if question:
                    self._prove(partition, quiet.follower, wanted, question)
                self.rest(quiet)
                continue
            known = partition.quiet.get(plan.replica_id)
            if known is not None:
                # At rest in an earlier session of the same follower.
                known.end()
            verdict = partition.on_follower_fetch(_as_fetch(plan, wanted))
            if verdict.watermark_moved:
                self.has_moved(partition)
            leading = partition.replica.leading
            follower = None if leading is None else leading.followers.get(plan.replica_id)
            if follower is not None:
                follower.asked = wanted if verdict.is_good else None
                if question and verdict.is_good:
                    self._prove(partition, follower, wanted, question)
            if verdict.error != ErrorCode.NONE:
                wanted = wanted._replace(error_code=verdict.error)
            active.append(wanted)
        plan.wanted = active
        return poll

    def rest(self, quiet: QuietPartition) -> None:
        """Let the partition rest until it changes."""
        quiet.memory.begin(quiet)
        if quiet.is_late:
            # Also when the ISR has shrunk: at rest the follower would learn of it only after
            # seconds.
            self.has_moved(quiet.partition)

    def _prove(
        self,
        partition: PartitionRuntime,
        follower: FollowerProgress,
        wanted: PartitionFetch,
        question: int,
    ) -> None:
        """Record that the follower followed this leader when the question came, if it names its
        epoch."""
        if wanted.current_leader_epoch == partition.leader_epoch:
            follower.proven_question = question
            self._waiting.release(partition.proof_key)

    def has_moved(self, partition: PartitionRuntime) -> None:
        """The high watermark has moved: answer parked fetches of followers after a moment."""
        if not self._moved:
            self.clock.call_at(self.clock.now_ms() + NEWS_AFTER_MS, self._tell)
        self._moved[partition] = None
        for one in partition.quiet.values():
            one.on_watermark()

    def _tell(self) -> None:
        """Answer the requests that still wait and have not sent the watermark meanwhile."""
        moved, self._moved = self._moved, {}
        for partition in moved:
            leading = partition.replica.leading
            if leading is not None:
                leading.watermark_due = partition.replica.high_watermark
                partition.wake_followers()

    def wait_also(self, operation: DelayedOperation, poll: FollowerPoll) -> None:
        """Wake the waiting request also for partitions that end their rest."""
        woken, poll.woken = poll.woken, []
        self._waiting.watch_also(operation, [one.append_key for one in woken])


class FollowerPoll:
    """One request of a follower, until its response."""

    def __init__(
        self, plan: FetchPlan, find: Find, on_answer: Callable[[], object], reads: FollowerReads
    ) -> None:
        self._plan = plan
        self._find = find
        self._on_answer = on_answer
        self._reads = reads
        # Partitions that were not at rest at the last check.
        self.woken: list[PartitionRuntime] = []

    @property
    def _memory(self) -> QuietPartitions | None:
        """Return the session's memory, unless a later request has continued the session."""
        memory: QuietPartitions | None = self._plan.quietness
        return memory if memory is not None and memory.poll is self else None

    @property
    def quiet_count(self) -> int:
        """Number of requested partitions without changes."""
        memory = self._memory
        return 0 if memory is None else len(memory.quiet)

    @property
    def keys(self) -> tuple[WaitKey, ...]:
        """Keys that the request waits for, besides those of the partitions that it reads."""
        memory = self._memory
        return () if memory is None else (memory.key,)

    def wake(self) -> None:
        """Read the partitions again that have changes now."""
        memory = self._memory
        if memory is None or not memory.ended:
            return
        ended, memory.ended = memory.ended, []
        now_ms = self._reads.clock.now_ms()
        for one in ended:
            if one.lasts(self._plan.broker_epoch):
                self._reads.rest(one)
                continue
            if one.partition.replica.leading is one.leading:
                # Until this moment the follower has waited here with all records.
                one.follower.had_all_until(now_ms)
            self._plan.wanted.append(one.wanted)
            self.woken.append(one.partition)

    def owes_news(self) -> bool:
        """Whether the leader must answer because the follower's watermark is old."""
        for wanted in self._plan.wanted:
            partition = self._find(wanted)
            if partition is not None:
                leading = partition.replica.leading
                if leading is not None and leading.owes_news(self._plan.replica_id):
                    return True
        return False

    def complete(self) -> bool:
        """Complete a response with all watermarks. True if more partitions must be read for
        that."""
        self._on_answer()
        memory = self._memory
        late = [] if memory is None else memory.take_late()
        self._plan.wanted += [one.wanted for one in late]
        for wanted in self._plan.wanted:
            partition = self._find(wanted)
            if partition is not None:
                replica = partition.replica
                if replica.leading is not None:
                    follower = replica.leading.followers.get(self._plan.replica_id)
                    if follower is not None:
                        follower.told_watermark = replica.high_watermark
                        follower.told_log_start_offset = replica.log_start_offset
        return bool(late)


def _quiet(
    memory: QuietPartitions, partition: PartitionRuntime, plan: FetchPlan, wanted: PartitionFetch
) -> QuietPartition | None:
    """Return the partition's entry if it is at rest."""
    leading = partition.replica.leading
    follower = None if leading is None else leading.followers.get(plan.replica_id)
    if leading is None or follower is None or follower.asked is not wanted:
        return None
    quiet = QuietPartition(memory, partition, leading, follower, wanted)
    return quiet if quiet.lasts(plan.broker_epoch) else None


def _as_fetch(plan: FetchPlan, wanted: PartitionFetch) -> FollowerFetch:
    return FollowerFetch(
        plan.replica_id,
        plan.broker_epoch,
        wanted.offset,
        wanted.last_fetched_epoch,
        wanted.current_leader_epoch,
        wanted.log_start_offset,
    )

"""Handles followers' fetches on the leader, and wakes their long polls.

A follower that has everything waits at the leader for more; so would the high watermark that its
own fetch has just moved, and with it every consumer that reads from a follower (hazard R-31,
KIP-392). It is told after a moment rather than at once: where records flow, the next of them bring
the watermark along, and an answer of its own would double the number of requests.

A follower asks for hundreds of partitions at a time, of which a few have something new. Those that
it has asked for before, and that have nothing to say, are quiet: a glance is all they cost. HOT.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.replica.leadership_proofs import NOT_PROVEN
from ottla.broker.replica.progress import FollowerFetch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partition_read import FetchPlan, PartitionFetch
    from ottla.broker.replica.leadership_proofs import LeadershipProofs
    from ottla.broker.replica.leading import Leading
    from ottla.broker.replica.progress import FollowerProgress
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Clock

    Find = Callable[[PartitionFetch], PartitionRuntime | None]

# How long a moved watermark may wait for records to be sent with.
NEWS_AFTER_MS = 10.0


class _Quiet(NamedTuple):
    """A partition of which the follower has everything."""

    partition: PartitionRuntime
    leading: Leading
    follower: FollowerProgress
    wanted: PartitionFetch
    # Of the log, when it was found to be the one that is meant.
    topic_id: Uuid | None

    @property
    def is_still_quiet(self) -> bool:
        partition, leading, follower, wanted, _topic_id = self
        replica = partition.replica
        return (
            replica.leading is leading
            and replica.log_end_offset == wanted.offset
            and follower.told_watermark >= leading.watermark_due
            and follower.told_log_start_offset == replica.log_start_offset
            and partition.is_open
        )


class QuietPartitions:
    """What a fetch session remembers of its last answer: everything that it asks for, if all of it
    was quiet then. One that says the same again costs a glance in all, and not one for each."""

    __slots__ = ("all_quiet",)

    def __init__(self) -> None:
        self.all_quiet: list[_Quiet] | None = None

    def lasts(self, plan: FetchPlan, now_ms: float) -> bool:
        """Whether all of it is quiet still; then the follower has asked for it again, just now.

        At rest this is all that a leader does for thousands of partitions: it calls nothing of
        ours. HOT."""
        known = self.all_quiet
        if known is None:
            return False
        node_id, broker_epoch = plan.replica_id, plan.broker_epoch
        for partition, leading, follower, wanted, topic_id in known:
            replica = partition.replica
            if (
                replica.leading is not leading
                or replica.log_end_offset != wanted.offset
                or follower.told_watermark < leading.watermark_due
                or follower.told_watermark < replica.high_watermark
                or follower.told_log_start_offset != replica.log_start_offset
                or not partition.is_open
                or partition.log.topic_id != topic_id
                or follower.asked is not wanted
                or follower.broker_epoch != broker_epoch
                or node_id not in leading.in_sync.committed
                or leading.followers.get(node_id) is not follower
            ):
                return False
            # As ``on_same_fetch`` does.
            follower.last_caught_up_ms = follower.last_fetch_ms = now_ms
        return True


class FollowerReads:
    """Owned by the reads of one broker. ``proofs`` is told what fetches say of followers."""

    def __init__(self, waiting: Purgatory, clock: Clock, proofs: LeadershipProofs) -> None:
        self._waiting = waiting
        self.clock = clock
        self._proofs = proofs
        self._moved: dict[PartitionRuntime, None] = {}

    def begin(self, plan: FetchPlan, find: Find, connection: object) -> FollowerPoll:
        """Take note of what a request says of the follower, before anything is read: what it asks
        for is what it has, if it may be believed (hazards R-09, R-10).

        Once for each request, however often it is read for. ``plan.wanted`` keeps what there may
        be something to say about; what is refused is noted there."""
        proofs = self._proofs
        poll = FollowerPoll(plan, find, partial(proofs.on_answer, connection), self)
        now_ms = self.clock.now_ms()
        question = proofs.on_fetch(connection, now_ms) if proofs.is_open else NOT_PROVEN
        quietness: QuietPartitions | None = plan.quietness
        if quietness is not None and not question and quietness.lasts(plan, now_ms):
            assert quietness.all_quiet is not None
            poll.quiet, plan.wanted = quietness.all_quiet, []
            poll.is_fresh = poll.is_calm = True
            return poll
        active: list[PartitionFetch] = []
        for wanted in plan.wanted:
            partition = find(wanted)
            if partition is None:
                active.append(wanted)
                continue
            quiet = _quiet(partition, plan, wanted)
            if quiet is not None:
                quiet.follower.on_same_fetch(now_ms)
                if question:
                    self._prove(partition, quiet.follower, wanted, question)
                poll.quiet.append(quiet)
                continue
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

    def _prove(
        self,
        partition: PartitionRuntime,
        follower: FollowerProgress,
        wanted: PartitionFetch,
        question: int,
    ) -> None:
        """The follower followed when that question had come, if it says in which epoch."""
        if wanted.current_leader_epoch == partition.leader_epoch:
            follower.proven_question = question
            self._waiting.release(partition.proof_key)

    def has_moved(self, partition: PartitionRuntime) -> None:
        """The high watermark has moved: parked fetches of followers are answered after a moment."""
        if not self._moved:
            self.clock.call_at(self.clock.now_ms() + NEWS_AFTER_MS, self._tell)
        self._moved[partition] = None

    def _tell(self) -> None:
        """Have those who still wait, and were not told meanwhile, answered."""
        moved, self._moved = self._moved, {}
        for partition in moved:
            leading = partition.replica.leading
            if leading is not None:
                leading.watermark_due = partition.replica.high_watermark
                self._waiting.release(partition.append_key)


class FollowerPoll:
    """One request of a follower, until it is answered."""

    def __init__(
        self, plan: FetchPlan, find: Find, on_answer: Callable[[], object], reads: FollowerReads
    ) -> None:
        self._plan = plan
        self._find = find
        self._on_answer = on_answer
        self._reads = reads
        self.quiet: list[_Quiet] = []
        # Nothing can have happened since it was found to be quiet.
        self.is_fresh = False
        # Nothing has, until it was answered.
        self.is_calm = False

    def wake(self) -> None:
        """What has something to say by now is read again."""
        if self.is_fresh:
            self.is_fresh = False
            return
        self.is_calm = False
        woken = [one for one in self.quiet if not one.is_still_quiet]
        if woken:
            self.quiet = [one for one in self.quiet if one.is_still_quiet]
            self._plan.wanted += [one.wanted for one in woken]
            now_ms = self._reads.clock.now_ms()
            for one in woken:
                if one.partition.replica.leading is one.leading:
                    # It has waited here, with everything there was, until this moment.
                    one.follower.had_all_until(now_ms)
        for partition, _leading, follower, _wanted, _topic_id in self.quiet:
            if follower.told_watermark < partition.replica.high_watermark:
                # Also when the ISR has shrunk: at rest it would wait for seconds to hear of it.
                self._reads.has_moved(partition)

    def owes_news(self) -> bool:
        """Whether the follower must be answered because its watermark is old."""
        for wanted in self._plan.wanted:
            partition = self._find(wanted)
            if partition is not None:
                leading = partition.replica.leading
                if leading is not None and leading.owes_news(self._plan.replica_id):
                    return True
        return False

    def complete(self) -> bool:
        """An answer is made: it tells all watermarks. True if more must be read for that."""
        self._on_answer()
        if self.is_calm:
            # A watermark that has moved since is told when its time has come.
            return False
        late = [
            one
            for one in self.quiet
            if one.follower.told_watermark < one.partition.replica.high_watermark
        ]
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
        if self._plan.quietness is not None:
            self._plan.quietness.all_quiet = None if self._plan.wanted else self.quiet
        return bool(late)


def _quiet(partition: PartitionRuntime, plan: FetchPlan, wanted: PartitionFetch) -> _Quiet | None:
    """Whether the same was asked for before and answered, and nothing has changed since."""
    leading = partition.replica.leading
    if leading is None:
        return None
    follower = leading.followers.get(plan.replica_id)
    if (
        follower is None
        or follower.asked is not wanted
        or follower.broker_epoch != plan.broker_epoch
        # A follower that may join the ISR is checked at each of its requests.
        or plan.replica_id not in leading.in_sync.committed
    ):
        return None
    quiet = _Quiet(partition, leading, follower, wanted, partition.log.topic_id)
    return quiet if quiet.is_still_quiet else None


def _as_fetch(plan: FetchPlan, wanted: PartitionFetch) -> FollowerFetch:
    return FollowerFetch(
        plan.replica_id,
        plan.broker_epoch,
        wanted.offset,
        wanted.last_fetched_epoch,
        wanted.current_leader_epoch,
        wanted.log_start_offset,
    )

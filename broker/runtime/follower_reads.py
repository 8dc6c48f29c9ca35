"""What followers' fetches mean to a leader, and what their long polls must not miss.

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

from ottla.broker.replica.progress import FollowerFetch
from ottla.broker.replica.proofs import NOT_PROVEN
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.replica.leading import Leading
    from ottla.broker.replica.progress import FollowerProgress
    from ottla.broker.replica.proofs import Proofs
    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.broker.runtime.partition_read import FetchPlan, Wanted
    from ottla.broker.runtime.waiting import Waiting
    from ottla.protocol.ports import Clock

    Find = Callable[[Wanted], PartitionRuntime | None]

# A moved watermark may wait so long for records that take it along.
NEWS_AFTER_MS = 10.0


class _Quiet(NamedTuple):
    """A partition of which the follower knows everything."""

    partition: PartitionRuntime
    leading: Leading
    follower: FollowerProgress
    wanted: Wanted

    @property
    def is_still_quiet(self) -> bool:
        partition, leading, follower, wanted = self
        replica = partition.replica
        return (
            replica.leading is leading
            and replica.log_end_offset == wanted.offset
            and follower.told_watermark >= leading.watermark_due
            and follower.told_log_start_offset == replica.log_start_offset
            and partition.is_open
        )


class FollowerReads:
    """Owned by the reads of one broker. ``proofs`` is told what fetches say of followers."""

    def __init__(self, waiting: Waiting, clock: Clock, proofs: Proofs) -> None:
        self._waiting = waiting
        self._clock = clock
        self._proofs = proofs
        self._moved: dict[PartitionRuntime, None] = {}

    def begin(self, plan: FetchPlan, find: Find, connection: object) -> FollowerPoll:
        """Take note of what a request says of the follower, before anything is read: what it asks
        for is what it has, if it may be believed (hazards R-09, R-10).

        Once for each request, however often it is read for. ``plan.wanted`` keeps what there may
        be something to say about; what is refused is noted there."""
        proofs = self._proofs
        poll = FollowerPoll(plan, find, partial(proofs.on_answer, connection))
        now_ms = self._clock.now_ms()
        question = proofs.on_fetch(connection, now_ms) if proofs.is_open else NOT_PROVEN
        active: list[Wanted] = []
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
                self._has_moved(partition)
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
        wanted: Wanted,
        question: int,
    ) -> None:
        """The follower followed when that question had come, if it says in which epoch."""
        if wanted.current_leader_epoch == partition.leader_epoch:
            follower.proven_question = question
            self._waiting.release(partition.proof_key)

    def _has_moved(self, partition: PartitionRuntime) -> None:
        if not self._moved:
            self._clock.call_at(self._clock.now_ms() + NEWS_AFTER_MS, self._tell)
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

    def __init__(self, plan: FetchPlan, find: Find, on_answer: Callable[[], object]) -> None:
        self._plan = plan
        self._find = find
        self._on_answer = on_answer
        self.quiet: list[_Quiet] = []

    def wake(self) -> None:
        """What has something to say by now is read again."""
        woken = [one for one in self.quiet if not one.is_still_quiet]
        if woken:
            self.quiet = [one for one in self.quiet if one.is_still_quiet]
            self._plan.wanted += [one.wanted for one in woken]

    def owes_news(self) -> bool:
        """Whether the follower must be answered for a watermark that it does not know."""
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
        return bool(late)


def _quiet(partition: PartitionRuntime, plan: FetchPlan, wanted: Wanted) -> _Quiet | None:
    """Whether the same was asked for before and answered, and nothing has changed since."""
    leading = partition.replica.leading
    if leading is None:
        return None
    follower = leading.followers.get(plan.replica_id)
    if (
        follower is None
        or follower.asked is not wanted
        or follower.broker_epoch != plan.broker_epoch
        # Whoever may join the ISR is looked at with each of its requests.
        or plan.replica_id not in leading.in_sync.committed
    ):
        return None
    quiet = _Quiet(partition, leading, follower, wanted)
    return quiet if quiet.is_still_quiet else None


def _as_fetch(plan: FetchPlan, wanted: Wanted) -> FollowerFetch:
    return FollowerFetch(
        plan.replica_id,
        plan.broker_epoch,
        wanted.offset,
        wanted.last_fetched_epoch,
        wanted.current_leader_epoch,
        wanted.log_start_offset,
    )

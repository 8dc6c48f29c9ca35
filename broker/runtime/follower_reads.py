"""What followers' fetches mean to a leader, and what their long polls must not miss.

A follower that has everything waits at the leader for more; so would the high watermark that its
own fetch has just moved, and with it every consumer that reads from a follower (hazard R-31,
KIP-392). It is told after a moment rather than at once: where records flow, the next of them bring
the watermark along, and an answer of its own would double the number of requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.replica.progress import FollowerFetch
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.broker.runtime.partition_read import FetchPlan, Wanted
    from ottla.broker.runtime.waiting import Waiting
    from ottla.protocol.ports import Clock

# A moved watermark may wait so long for records that take it along.
NEWS_AFTER_MS = 10.0

Find = Callable[["Wanted"], "PartitionRuntime | None"]


class FollowerReads:
    """Owned by the reads of one broker."""

    def __init__(self, waiting: Waiting, clock: Clock) -> None:
        self._waiting = waiting
        self._clock = clock
        self._moved: dict[PartitionRuntime, None] = {}

    def acknowledge(self, plan: FetchPlan, find: Find) -> None:
        """Before anything is read: what a follower asks for says what it has, and whether it may
        be believed (hazards R-09, R-10). Once for each request, however often it is read for.

        What is refused is noted in the plan."""
        for place, wanted in enumerate(plan.wanted):
            partition = find(wanted)
            if partition is not None:
                verdict = partition.on_follower_fetch(_as_fetch(plan, wanted))
                if verdict.watermark_moved:
                    self._has_moved(partition)
                if verdict.error != ErrorCode.NONE:
                    plan.wanted[place] = wanted._replace(error_code=verdict.error)

    def owes_news(self, plan: FetchPlan, find: Find) -> bool:
        """Whether the follower must be answered for a watermark that it does not know."""
        for wanted in plan.wanted:
            partition = find(wanted)
            if partition is not None:
                leading = partition.replica.leading
                if leading is not None and leading.owes_news(plan.replica_id):
                    return True
        return False

    def note_told(self, plan: FetchPlan, find: Find) -> None:
        """The answer that is made now tells every watermark."""
        for wanted in plan.wanted:
            partition = find(wanted)
            if partition is not None:
                replica = partition.replica
                if replica.leading is not None:
                    follower = replica.leading.followers.get(plan.replica_id)
                    if follower is not None:
                        follower.told_watermark = replica.high_watermark

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
                self._waiting.release(partition.news_key)


def _as_fetch(plan: FetchPlan, wanted: Wanted) -> FollowerFetch:
    return FollowerFetch(
        plan.replica_id,
        plan.broker_epoch,
        wanted.offset,
        wanted.last_fetched_epoch,
        wanted.current_leader_epoch,
        wanted.log_start_offset,
    )

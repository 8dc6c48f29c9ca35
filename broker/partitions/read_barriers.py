"""Holds back answers of a leader that may have been replaced, until its followers prove otherwise.

A coordinator that was suspended for longer than its session resumes as coordinator, and knows less
than its successor. Its writes are refused, since no replica follows it; but answers from its memory
would be accepted: an old offset, a transaction that has ended (hazards P-02, G-12, T-15). While the
leadership's lease is held no rival can be elected, and nothing waits. Without it, a question is
answered when every rival has proved that it followed after the question came
(replica/leadership_proofs.py). That takes a round trip without the store, so groups keep working
while the store is unavailable.

Questions to one partition are answered in the order in which they came, those that come with the
lease behind those that still wait: requests of one connection, or about one id, do not overtake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.leadership_proofs import LeadershipProofs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.purgatory import DelayedOperation, OperationOwner, Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.replica.leading import Leading
    from ottla.protocol.ports import Clock

# Many round trips, but less than the request timeout of clients and brokers.
PROOF_TIMEOUT_MS = 2_000.0
# The store's next response raises no event, so the lease is polled while a question waits.
LOOK_MS = 50.0


class ReadBarriers:
    """Owned by the server: coordinators ask here; ``proofs`` records the fetches of followers.

    A question ends with its connection, its partition's role or its timeout, whichever is first."""

    def __init__(self, waiting: Purgatory, clock: Clock) -> None:
        self.proofs = LeadershipProofs()
        self._waiting = waiting
        self._clock = clock
        # Partitions with waiting requests, as of the last poll.
        self._awaited: dict[PartitionRuntime, None] = {}

    def is_open(self, partition: PartitionRuntime) -> bool:
        """Whether a question to this partition may be answered at once."""
        return partition.has_lease and not self._is_awaited(partition)

    def wait(
        self,
        partition: PartitionRuntime,
        answer: Callable[[bool], object],
        owner: OperationOwner | None,
    ) -> None:
        """Call ``answer`` once, now or later, with whether this broker is proven to have led the
        partition at the time of this call. Does not call it if the owner disconnects."""
        leading = partition.replica.leading
        assert leading is not None, "only a leader has something to prove"
        deadline_ms = self._clock.now_ms() + PROOF_TIMEOUT_MS
        number = self.proofs.ask(deadline_ms)
        question = _Question(self._waiting, partition, leading, number, answer)
        is_known = question.verdict() is not None
        if is_known and not self._is_awaited(partition):
            question.try_complete()
            return
        leading.greet()
        # Requests that wait for records of this partition.
        partition.wake_followers()
        question.waiter = self._waiting.park(
            (partition.proof_key,),
            deadline_ms,
            question.try_complete,
            question.expire,
            owner,
            just_asked=True,
        )
        if is_known:
            # The earlier questions have a verdict as well, because they are checked first.
            self._waiting.release(partition.proof_key)
        self._look_soon(partition)

    def _is_awaited(self, partition: PartitionRuntime) -> bool:
        return partition.proof_key in self._waiting.watchers

    def _look_soon(self, partition: PartitionRuntime) -> None:
        if not self._awaited:
            self._clock.call_at(self._clock.now_ms() + LOOK_MS, self._look)
        self._awaited[partition] = None

    def _look(self) -> None:
        """Check whether a lease has returned."""
        awaited, self._awaited = self._awaited, {}
        for partition in awaited:
            if self._is_awaited(partition):
                if partition.has_lease:
                    self._waiting.release(partition.proof_key)
                self._look_soon(partition)


class _Question:
    """A question to one leadership. ``waiter`` is set while it waits."""

    __slots__ = (
        "_answer",
        "_leader_epoch",
        "_leading",
        "_number",
        "_partition",
        "_waiting",
        "waiter",
    )

    def __init__(
        self,
        waiting: Purgatory,
        partition: PartitionRuntime,
        leading: Leading,
        number: int,
        answer: Callable[[bool], object],
    ) -> None:
        self._waiting = waiting
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._leading = leading
        self._number = number
        self._answer = answer
        self.waiter: DelayedOperation | None = None

    def verdict(self) -> bool | None:
        """The verdict; None while it is open."""
        partition, leading = self._partition, self._leading
        if partition.leader_epoch != self._leader_epoch or partition.replica.leading is not leading:
            return False
        # A lease that is held again proves that no rival was elected in between.
        return leading.is_proven_since(self._number) or partition.has_lease or None

    def try_complete(self) -> bool:
        """Answer the question if there is a verdict."""
        found = self.verdict()
        if found is None:
            return False
        if self.waiter is not None:
            key = self._partition.proof_key
            if next(iter(self._waiting.watchers[key])) is not self.waiter:
                # The lease returned after an earlier question was checked: answer that one first.
                self._waiting.release(key)
                return False
            # Requests that follow this answer wait only for the questions that are queued now.
            self.waiter.cancel()
        self._answer(found)
        return True

    def expire(self) -> None:
        """The question has timed out."""
        self._answer(self.verdict() or False)

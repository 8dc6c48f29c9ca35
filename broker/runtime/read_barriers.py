"""Holds back answers of a leader that may have been replaced, until its followers prove otherwise.

A coordinator that was stopped for longer than its session wakes up as what it was, and knows less
than its successor. What it writes is refused, since nobody follows it; what it says from memory
alone would be believed: a position from before, a transaction that has long ended (hazards P-02,
G-12, T-15). While the leadership's lease is held nobody can have been elected, and nothing waits.
Without it, a question is answered once every rival has shown that it followed after the question
came (replica/proofs.py). That takes a round trip and no store, so groups go on while it is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.proofs import Proofs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.broker.runtime.waiting import Owner, Waiting
    from ottla.protocol.ports import Clock

# Many round trips, and less than clients and other brokers wait for the answer.
PROOF_TIMEOUT_MS = 2_000.0


class ReadBarriers:
    """Owned by the server: coordinators ask here, and what followers fetch is noted in ``proofs``.

    A question goes with its connection, its partition's role or its time, whichever ends first."""

    def __init__(self, waiting: Waiting, clock: Clock) -> None:
        self.proofs = Proofs()
        self._waiting = waiting
        self._clock = clock

    def wait(
        self, partition: PartitionRuntime, answer: Callable[[bool], object], owner: Owner | None
    ) -> None:
        """Call ``answer`` once, now or later: whether the partition, which is led here without a
        lease, is proven to have been led when this was asked. Not at all if the owner goes."""
        leader_epoch = partition.leader_epoch
        leading = partition.replica.leading
        assert leading is not None, "only a leader has something to prove"
        deadline_ms = self._clock.now_ms() + PROOF_TIMEOUT_MS
        question = self.proofs.ask(deadline_ms)

        def verdict() -> bool | None:
            """None while it is open."""
            if partition.leader_epoch != leader_epoch or partition.replica.leading is not leading:
                return False
            # A lease that is held again says that nobody was elected in between.
            return leading.is_proven_since(question) or partition.has_lease or None

        def try_complete() -> bool:
            found = verdict()
            if found is not None:
                answer(found)
            return found is not None

        if try_complete():
            return
        leading.greet()
        # Where they wait for records of this partition.
        self._waiting.release(partition.append_key)
        self._waiting.park(
            (partition.proof_key,),
            deadline_ms,
            try_complete,
            lambda: answer(verdict() or False),
            owner,
            just_asked=True,
        )

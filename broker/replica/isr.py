"""The in-sync replicas of one partition, and the pending change that the store may apply.

    state            HW and acks count          min.insync counts     may propose
    committed        committed                  committed             yes
    expand pending   committed + new member     committed             no
    shrink pending   committed                  committed - leaving   no

Until the store answers, a change may or may not be in force. So the watermark waits for all
possible members (maximal ISR), and min.insync.replicas counts only the certain ones (hazards R-12,
R-13; KIP-497).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class IsrChange(NamedTuple):
    """A proposal to the store: replace the state with the version ``partition_epoch``.

    ``added`` are (node id, broker epoch) of new members; the store must refuse the change if one of
    them has another broker epoch by then (KIP-903). Proposals are compared by identity."""

    isr: tuple[int, ...]
    added: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    eligible_leaders: tuple[int, ...] = ()


class ChangeOutcome(Enum):
    """The outcome of a proposal."""

    # The store has applied it.
    APPLIED = auto()
    # It was not applied and never will be.
    REFUSED = auto()
    # The answer was lost; it may have been or may still be applied.
    UNKNOWN = auto()


class InSyncSet:
    """The ISR as the leader knows it; owned by a leading replica for one leader epoch."""

    __slots__ = ("committed", "eligible_leaders", "partition_epoch", "pending")

    def __init__(
        self,
        isr: Iterable[int],
        partition_epoch: int,
        eligible_leaders: Iterable[int] = (),
    ) -> None:
        self.committed = tuple(isr)
        self.eligible_leaders = tuple(eligible_leaders)
        self.partition_epoch = partition_epoch
        self.pending: IsrChange | None = None
        assert len(set(self.committed)) == len(self.committed)

    @property
    def maximal(self) -> tuple[int, ...]:
        """All replicas that are or may be members; the watermark waits for them."""
        if self.pending is None:
            return self.committed
        return _union(self.committed, self.pending.isr)

    @property
    def certain(self) -> tuple[int, ...]:
        """The members regardless of the pending change; min.insync.replicas counts them."""
        if self.pending is None:
            return self.committed
        return tuple(node for node in self.committed if node in self.pending.isr)

    def differs(self, isr: tuple[int, ...], min_insync: int) -> bool:
        """Whether the ISR, or the eligible leaders after it, differ from the stored ones."""
        known = self.eligible_leaders
        return isr != self.committed or known != eligible_after(isr, known, isr, min_insync)

    def propose(
        self,
        isr: Iterable[int],
        added: Iterable[tuple[int, int]],
        leader_epoch: int,
        min_insync: int,
    ) -> IsrChange:
        """Begin a change; there must be none pending."""
        assert self.pending is None
        target = tuple(isr)
        assert target
        assert self.differs(target, min_insync)
        self.pending = IsrChange(
            target,
            tuple(added),
            leader_epoch,
            self.partition_epoch,
            eligible_after(self.committed, self.eligible_leaders, target, min_insync),
        )
        # Below the minimum no member is forgotten: it may be the next leader (hazard R-21).
        kept = {*target, *self.pending.eligible_leaders}
        assert len(target) >= min_insync or kept.issuperset(self.committed)
        return self.pending

    def on_answer(
        self, change: IsrChange, outcome: ChangeOutcome, partition_epoch: int | None = None
    ) -> bool:
        """Handle the answer to a proposal; True if the sets have changed.

        An unknown outcome leaves it pending: neither the old nor the new set is safe to assume
        (hazard R-13). ``partition_epoch`` is the version that the change created."""
        if change is not self.pending or outcome is ChangeOutcome.UNKNOWN:
            return False
        self.pending = None
        if outcome is ChangeOutcome.APPLIED:
            assert partition_epoch is not None
            assert partition_epoch > change.partition_epoch
            # A LeaderAndIsr from the controller may be newer already.
            if partition_epoch > self.partition_epoch:
                self.committed = change.isr
                self.eligible_leaders = change.eligible_leaders
                self.partition_epoch = partition_epoch
        return True

    def on_stored(
        self, isr: Iterable[int], partition_epoch: int, eligible_leaders: Iterable[int] = ()
    ) -> bool:
        """Take over the stored state of this leader epoch; True if the sets have changed.

        Accepted only if it is newer. A pending change stays pending until its own answer comes: it
        may have created this version, or be applied after it (hazard R-14)."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.committed = tuple(isr)
        self.eligible_leaders = tuple(eligible_leaders)
        self.partition_epoch = partition_epoch
        return True


def eligible_after(
    isr: tuple[int, ...], eligible: tuple[int, ...], new_isr: tuple[int, ...], min_insync: int
) -> tuple[int, ...]:
    """The eligible leaders to store with a new ISR (KIP-966).

    Below min.insync.replicas the watermark does not move, so replicas that leave then have
    everything that was acknowledged, and stay eligible until enough are in sync again (hazard
    R-21)."""
    if len(new_isr) >= min_insync:
        return ()
    return tuple(node for node in _union(eligible, isr) if node not in new_isr)


def _union(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return first + tuple(node for node in second if node not in first)

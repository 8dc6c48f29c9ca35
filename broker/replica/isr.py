"""The in-sync set of one partition, with the change that may be on its way to the store.

    state            HW and acks count          min.insync counts     may propose
    committed        committed                  committed             yes
    expand pending   committed + new member     committed             no
    shrink pending   committed                  committed - leaving   no

A change is in force nowhere until its answer has come, and may be in force everywhere already.
So the watermark waits for whoever may be a member (maximal ISR), and min.insync.replicas trusts
only those who are one either way (hazards R-12, R-13; KIP-497).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class IsrChange(NamedTuple):
    """A proposal for the store: replace the state whose version is ``partition_epoch``.

    ``added`` are (node id, broker epoch) of those who were not members; the store must refuse the
    change if one of them has another incarnation by then (KIP-903). Compared by identity: each
    proposal is its own token."""

    isr: tuple[int, ...]
    added: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    eligible_leaders: tuple[int, ...] = ()


class ChangeOutcome(Enum):
    """What became of a proposal."""

    # It is the stored state now.
    APPLIED = auto()
    # It is certain that it was not applied and never will be.
    REFUSED = auto()
    # The answer was lost; it may have been applied, or may yet be.
    UNKNOWN = auto()


class InSyncSet:
    """Owned by a replica that leads, for one leader epoch; a new epoch makes a new one."""

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
        """Everybody who is or may already be a member; the watermark waits for all of them."""
        if self.pending is None:
            return self.committed
        return _union(self.committed, self.pending.isr)

    @property
    def certain(self) -> tuple[int, ...]:
        """Those who are members whatever becomes of the pending change; min.insync counts them."""
        if self.pending is None:
            return self.committed
        return tuple(node for node in self.committed if node in self.pending.isr)

    def differs(self, isr: tuple[int, ...], min_insync: int) -> bool:
        """Whether the ISR, or who is eligible beside it, would not be as they are stored."""
        known = self.eligible_leaders
        return isr != self.committed or known != eligible_after(isr, known, isr, min_insync)

    def propose(
        self,
        isr: Iterable[int],
        added: Iterable[tuple[int, int]],
        leader_epoch: int,
        min_insync: int,
    ) -> IsrChange:
        """Begin a change; there must be none on its way."""
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
        return self.pending

    def on_answer(
        self, change: IsrChange, outcome: ChangeOutcome, partition_epoch: int | None = None
    ) -> bool:
        """Take the answer to a proposal; True if the sets have changed.

        An unknown outcome leaves it pending: going back to the old set, or forward to the new one,
        is a bet (hazard R-13). ``partition_epoch`` is the version that the change created."""
        if change is not self.pending or outcome is ChangeOutcome.UNKNOWN:
            return False
        self.pending = None
        if outcome is ChangeOutcome.APPLIED:
            assert partition_epoch is not None
            assert partition_epoch > change.partition_epoch
            # A push from the controller may have told us more than this already.
            if partition_epoch > self.partition_epoch:
                self.committed = change.isr
                self.eligible_leaders = change.eligible_leaders
                self.partition_epoch = partition_epoch
        return True

    def on_stored(
        self, isr: Iterable[int], partition_epoch: int, eligible_leaders: Iterable[int] = ()
    ) -> bool:
        """Learn the stored state of this same leader epoch; True if the sets have changed.

        Accepted only if it is later than what is known. The change on its way stays on its way
        until its own answer comes: it may be what made this version, or be landing behind it
        (hazard R-14)."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.committed = tuple(isr)
        self.eligible_leaders = tuple(eligible_leaders)
        self.partition_epoch = partition_epoch
        return True


def eligible_after(
    isr: tuple[int, ...], eligible: tuple[int, ...], new_isr: tuple[int, ...], min_insync: int
) -> tuple[int, ...]:
    """The eligible leaders to be stored with a new ISR (KIP-966).

    Below min.insync the watermark stands still, so those who leave then hold everything that was
    ever acknowledged, and stay eligible until enough are in sync again (hazard R-21)."""
    if len(new_isr) >= min_insync:
        return ()
    return tuple(node for node in _union(eligible, isr) if node not in new_isr)


def _union(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return first + tuple(node for node in second if node not in first)

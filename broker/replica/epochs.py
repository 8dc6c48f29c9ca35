"""The start offsets of leader epochs in a log, and where two logs diverge (KIP-101, 279).

Every batch carries the epoch of the leader that wrote it. A list of (epoch, first offset) is enough
to find the last offset at which two replicas agree, without comparing records. The list is kept in
``leader-epoch-checkpoint``; after a method has returned True, the caller must write it there before
the change takes effect (hazard R-04).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochStart(NamedTuple):
    """The first offset written (or to be written) under a leader epoch."""

    leader_epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest known epoch not above the requested one, and the offset after its last record.

    (-1, -1) if unknown."""

    leader_epoch: int
    end_offset: int

    @property
    def is_undefined(self) -> bool:
        return self.end_offset == UNDEFINED_OFFSET


UNDEFINED_END = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class Truncation(NamedTuple):
    """Cut the log to ``offset``; unless ``is_final``, ask the leader again about what is left."""

    offset: int
    is_final: bool


class LeaderEpochs:
    """The leader epochs of one log. Invariant: epochs and offsets both increase strictly.

    Owned by the replica's history."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for leader_epoch, start_offset in entries:
            self.assign(leader_epoch, start_offset)

    @property
    def entries(self) -> list[EpochStart]:
        """The entries for the checkpoint, oldest first."""
        return [EpochStart(*entry) for entry in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last entry, -1 if there is none."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def start_of(self, leader_epoch: int) -> int | None:
        """The start offset of exactly that epoch; None if this log does not have it."""
        index = bisect_left(self._epochs, leader_epoch)
        if index < len(self._epochs) and self._epochs[index] == leader_epoch:
            return self._starts[index]
        return None

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Add the epoch with its start offset; True if the list has changed.

        Later entries that contradict the new one are dropped: their records no longer exist. A
        known epoch keeps its earlier start."""
        assert leader_epoch >= 0
        assert start_offset >= 0
        kept = len(self._epochs)
        while kept and not self._precedes(kept - 1, leader_epoch, start_offset):
            kept -= 1
        changed = kept < len(self._epochs)
        del self._epochs[kept:], self._starts[kept:]
        if not kept or self._epochs[-1] != leader_epoch:
            self._epochs.append(leader_epoch)
            self._starts.append(start_offset)
            changed = True
        assert len(self._epochs) == 1 or (
            self._epochs[-2] < self._epochs[-1] and self._starts[-2] < self._starts[-1]
        )
        return changed

    def _precedes(self, index: int, leader_epoch: int, start_offset: int) -> bool:
        """Whether an entry may precede (or be) the epoch that begins at that offset."""
        epoch, start = self._epochs[index], self._starts[index]
        return (epoch < leader_epoch and start < start_offset) or (
            epoch == leader_epoch and start <= start_offset
        )

    def observe(self, leader_epoch: int, base_offset: int) -> bool:
        """Account for a batch in the log; True if the list has changed.

        A batch that fits the list changes nothing: an epoch without batches is only in the file,
        and replaying the log must not remove it (R-04). A batch that contradicts the list wins,
        since the file may be older than the log after a crash (S-28)."""
        epochs = self._epochs
        if epochs and epochs[-1] == leader_epoch and self._starts[-1] <= base_offset:
            return False
        if leader_epoch < 0:
            return False
        if leader_epoch <= self.latest_epoch:
            known_epoch = self.epoch_at(base_offset)
            # The list does not cover offsets before the log start; a batch may reach across it.
            if known_epoch in (leader_epoch, UNDEFINED_EPOCH):
                return False
        return self.assign(leader_epoch, base_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at this offset; -1 if unknown."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else UNDEFINED_EPOCH

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        """Answer OffsetForLeaderEpoch: the largest epoch <= the requested one, and its end.

        The latest epoch ends at the log end. A later one is undefined. One before all known epochs
        ends at the first known start."""
        if leader_epoch == UNDEFINED_EPOCH or leader_epoch > self.latest_epoch:
            return UNDEFINED_END
        index = bisect_right(self._epochs, leader_epoch)
        if index == len(self._epochs):
            return EpochEnd(self._epochs[-1], log_end_offset)
        if index == 0:
            return EpochEnd(leader_epoch, self._starts[0])
        return EpochEnd(self._epochs[index - 1], self._starts[index])

    def divergence(
        self, last_fetched_epoch: int, fetch_offset: int, log_end_offset: int
    ) -> EpochEnd | None:
        """Where a fetcher's log diverges from this one; None if it is a prefix (KIP-595).

        The fetcher's log ends at ``fetch_offset`` with a record of ``last_fetched_epoch``; -1 if
        unknown. An undefined end means that this log does not know the epoch."""
        if last_fetched_epoch == UNDEFINED_EPOCH:
            return None
        end = self.end_offset_for(last_fetched_epoch, log_end_offset)
        agrees = end.leader_epoch == last_fetched_epoch and fetch_offset <= end.end_offset
        return None if agrees else end

    def truncation_for(self, leader_end: EpochEnd, log_end_offset: int) -> Truncation:
        """Where a follower truncates, given the leader's answer for the follower's last epoch.

        The leader may not know that epoch and answers with an older one (hazard R-03). If the
        follower does not know that one either, it truncates to the end of the newest epoch below
        and asks again, until both have the same epoch."""
        assert not leader_end.is_undefined
        limit = min(leader_end.end_offset, log_end_offset)
        own_end = self.end_offset_for(leader_end.leader_epoch, log_end_offset)
        if own_end.is_undefined:
            return Truncation(limit, is_final=True)
        if own_end.leader_epoch != leader_end.leader_epoch:
            # Each round is about an older epoch: there is a last one.
            assert own_end.leader_epoch < leader_end.leader_epoch
            return Truncation(min(own_end.end_offset, log_end_offset), is_final=False)
        return Truncation(min(limit, own_end.end_offset), is_final=True)

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop epochs that begin at or after the new log end; True if there were any.

        An epoch that begins exactly there is dropped as well: it would contradict the records that
        the next leader writes there, and truncation would never converge (hazard S-28)."""
        kept = bisect_left(self._starts, end_offset)
        changed = kept < len(self._starts)
        del self._epochs[kept:], self._starts[kept:]
        assert not self._starts or self._starts[-1] < end_offset
        return changed

    def truncate_from_start(self, log_start_offset: int) -> bool:
        """Drop epochs before the new log start; True if the list has changed.

        The epoch that contains the log start stays and begins there."""
        index = bisect_right(self._starts, log_start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == log_start_offset):
            return False
        del self._epochs[:index], self._starts[:index]
        self._starts[0] = log_start_offset
        assert len(self._starts) == 1 or log_start_offset < self._starts[1]
        return True

    def clear(self) -> None:
        """Drop all epochs: the log was emptied and starts elsewhere."""
        self._epochs.clear()
        self._starts.clear()

"""Where each leader epoch began in this log, and from that where two logs part ways (KIP-101, 279).

Every batch carries the epoch of the leader that wrote it. A list of (epoch, first offset) is then
enough to find, without comparing records, the last point at which two replicas agree. The list is
kept in ``leader-epoch-checkpoint``; whoever calls a method that returns True must write it there
before anyone may act on the change (hazard R-04).
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
    """The largest known epoch not above the one asked for, and the offset after its last record.

    (-1, -1) when nothing can be said."""

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
    """Owned by the replica's history. Epochs and offsets both increase strictly."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for leader_epoch, start_offset in entries:
            self.assign(leader_epoch, start_offset)

    @property
    def entries(self) -> list[EpochStart]:
        """What the checkpoint holds, oldest first."""
        return [EpochStart(*entry) for entry in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last entry, -1 if there is none."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def start_of(self, leader_epoch: int) -> int | None:
        """Where that very epoch began, if this log knows it."""
        index = bisect_left(self._epochs, leader_epoch)
        if index < len(self._epochs) and self._epochs[index] == leader_epoch:
            return self._starts[index]
        return None

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Note that the epoch began at that offset; True if the list has changed.

        A later entry that contradicts the new one goes: it tells of records that are no longer
        there. An epoch that is already known keeps its earlier start."""
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
        return changed

    def _precedes(self, index: int, leader_epoch: int, start_offset: int) -> bool:
        """Whether an entry may stand before (or be) the epoch that begins at that offset."""
        epoch, start = self._epochs[index], self._starts[index]
        return (epoch < leader_epoch and start < start_offset) or (
            epoch == leader_epoch and start <= start_offset
        )

    def observe(self, leader_epoch: int, base_offset: int) -> bool:
        """Note a batch that is in the log; True if the list has changed.

        A batch that fits changes nothing: a leadership that has written nothing is in the file and
        in no batch, and reading the log again must not remove it (R-04). One that does not fit
        wins over the list, whose file may be older than the log after a crash (S-28)."""
        epochs = self._epochs
        if epochs and epochs[-1] == leader_epoch and self._starts[-1] <= base_offset:
            return False
        if leader_epoch < 0:
            return False
        if leader_epoch <= self.latest_epoch:
            known_epoch = self.epoch_at(base_offset)
            # Before the log start the list says nothing; a batch may reach over it.
            if known_epoch in (leader_epoch, UNDEFINED_EPOCH):
                return False
        return self.assign(leader_epoch, base_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch that the record at this offset was written under, -1 if not known."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else UNDEFINED_EPOCH

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        """Answer OffsetForLeaderEpoch: the largest epoch <= the asked one, and where it ended.

        The epoch being written ends at the log end. One that lies in the future of this log is
        undefined. One before all that is known ends where knowledge begins."""
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
        """Where a fetcher's log parts from this one, None if all it has is also here (KIP-595).

        The fetcher says that its log ends at ``fetch_offset`` with a record of the given epoch; -1
        says nothing. An undefined end means that the epoch cannot be judged here."""
        if last_fetched_epoch == UNDEFINED_EPOCH:
            return None
        end = self.end_offset_for(last_fetched_epoch, log_end_offset)
        agrees = end.leader_epoch == last_fetched_epoch and fetch_offset <= end.end_offset
        return None if agrees else end

    def truncation_for(self, leader_end: EpochEnd, log_end_offset: int) -> Truncation:
        """What a follower cuts, given the leader's answer about the follower's own last epoch.

        The leader may never have seen that epoch and answers with an older one (hazard R-03). If
        the follower does not know that one either, it cuts to the end of the newest epoch below
        and asks again, until both name the same epoch."""
        assert not leader_end.is_undefined
        limit = min(leader_end.end_offset, log_end_offset)
        own_end = self.end_offset_for(leader_end.leader_epoch, log_end_offset)
        if own_end.is_undefined:
            return Truncation(limit, is_final=True)
        if own_end.leader_epoch != leader_end.leader_epoch:
            return Truncation(min(own_end.end_offset, log_end_offset), is_final=False)
        return Truncation(min(limit, own_end.end_offset), is_final=True)

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that begin at or after the new log end; True if there were any.

        One that begins exactly there goes as well: kept, it would contradict what the next leader
        writes at that offset, and truncation would never converge (hazard S-28)."""
        kept = bisect_left(self._starts, end_offset)
        changed = kept < len(self._starts)
        del self._epochs[kept:], self._starts[kept:]
        return changed

    def truncate_from_start(self, log_start_offset: int) -> bool:
        """Let the list begin at the new log start; True if it has changed.

        The epoch that the log start lies in stays, now beginning there."""
        index = bisect_right(self._starts, log_start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == log_start_offset):
            return False
        del self._epochs[:index], self._starts[:index]
        self._starts[0] = log_start_offset
        return True

    def clear(self) -> None:
        """The log was emptied and starts elsewhere."""
        self._epochs.clear()
        self._starts.clear()

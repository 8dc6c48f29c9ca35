"""What a replica knows from its log alone: producers, transactions, leader epochs.

The same for leader, follower and recovery, so that whoever takes over knows what the one before
knew. The log feeds it while loading and truncating; whoever appends feeds it after each append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.epochs import LeaderEpochs
from ottla.broker.replica.producers import ProducerTable
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.records.batch import RecordBatch


class ReplicaHistory:
    """Owned by one replica; handed to its log as the observer."""

    __slots__ = ("epochs", "producers")

    def __init__(self) -> None:
        self.epochs = LeaderEpochs()
        self.producers = ProducerTable()

    def reset(self) -> None:
        """Forget producers and transactions; the log is about to be told from its start."""
        self.producers.clear()

    def load_snapshot(self, snapshot: bytes) -> bool:
        """Take over saved producers; False if they are spoiled, and nothing has changed then."""
        try:
            self.producers.load(snapshot)
        except CorruptLogError:
            return False
        return True

    def snapshot(self) -> bytes:
        """Producers as of the last observed batch, as the content of a ``.snapshot`` file."""
        return self.producers.snapshot()

    @property
    def has_seen_markers(self) -> bool:
        """Whether a producer that is known here has ended a transaction."""
        return self.producers.has_seen_markers

    @property
    def settled_offset(self) -> int:
        """The high watermark, or a little less: who reads from there on misses no open end."""
        return self.producers.transactions.settled_offset

    def load_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """Take over the saved entries of ``leader-epoch-checkpoint``."""
        self.epochs = LeaderEpochs(entries)

    def leader_epochs(self) -> Sequence[tuple[int, int]]:
        """The entries to be saved."""
        return self.epochs.entries

    def observe(self, batch: RecordBatch) -> tuple[int, int, int, int] | None:
        """Account for a batch that is in the log, once or more often.

        Returns the entry that an abort marker adds to the transaction index: producer id, first
        offset, the marker's offset, last stable offset after it."""
        self.epochs.observe(batch.leader_epoch, batch.base_offset)
        if batch.producer_id == NO_PRODUCER_ID:
            return None
        done = self.producers.observe(batch)
        if done is None or not done.is_aborted:
            return None
        return done.producer_id, done.first_offset, done.last_offset, done.last_stable_offset

    def truncated(self, log_end_offset: int) -> None:
        """The log ends there now. Producers are told again by the log (hazard T-07)."""
        self.epochs.truncate_from_end(log_end_offset)

    def log_start_moved(self, log_start_offset: int) -> None:
        """Older records are gone; what producers have done with them is kept (hazard T-06)."""
        self.epochs.truncate_from_start(log_start_offset)

"""A replica's state that is derived from its log: producers, transactions, leader epochs.

It is the same on leader and follower and after recovery, so that a new leader knows what the
previous one knew. The log feeds it while loading and truncating; the partition feeds it after each
append.
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
    """Owned by one replica, and passed to its log as the observer."""

    __slots__ = ("epochs", "producers")

    def __init__(self) -> None:
        self.epochs = LeaderEpochs()
        self.producers = ProducerTable()

    def reset(self) -> None:
        """Forget producers and transactions; the batches from the log start will follow."""
        self.producers.clear()

    def load_snapshot(self, snapshot: bytes) -> bool:
        """Load saved producers; False if they are corrupt, and then nothing has changed."""
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
        """Whether any known producer has ended a transaction."""
        return self.producers.has_seen_markers

    @property
    def settled_offset(self) -> int:
        """The high watermark or a little less; all unsettled transaction ends are behind it."""
        return self.producers.transactions.settled_offset

    def load_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """Load the saved entries of ``leader-epoch-checkpoint``."""
        self.epochs = LeaderEpochs(entries)

    def leader_epochs(self) -> Sequence[tuple[int, int]]:
        """The entries to be saved."""
        return self.epochs.entries

    def observe(self, batch: RecordBatch) -> tuple[int, int, int, int] | None:
        """Account for a batch in the log; it may have been observed before.

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
        """Drop later leader epochs. The log replays the producers (hazard T-07)."""
        self.epochs.truncate_from_end(log_end_offset)

    def log_start_moved(self, log_start_offset: int) -> None:
        """Drop earlier leader epochs; the producers of deleted records are kept (hazard T-06)."""
        self.epochs.truncate_from_start(log_start_offset)

"""What a log tells those who keep state about it: producers, leader epochs, transactions.

The log knows bytes and batches; whoever owns the meaning implements ``LogObserver``. While a log
is loaded and after a truncation, the observer is fed by the log. Appended batches are the
appender's to observe: it must do so before the next append, since a snapshot is taken when the
log rolls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.records.batch import RecordBatch


class LogObserver(Protocol):
    """State that follows from a log's batches and can be saved and rebuilt."""

    def reset(self) -> None:
        """Forget producers and transactions; batches from the log's start will follow."""

    def load_snapshot(self, snapshot: bytes) -> bool:
        """Take over producers as saved; False if it is spoiled, and nothing has changed then.

        The batches from the snapshot's offset on will follow."""

    def snapshot(self) -> bytes:
        """Producers as of now, as the content of a ``.snapshot`` file."""

    @property
    def has_seen_markers(self) -> bool:
        """Whether a producer that is known has ended a transaction, at whatever offset."""

    @property
    def settled_offset(self) -> int:
        """What ended before it has ended for good, so that a snapshot need not tell when."""

    def load_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """Take over the (epoch, start offset) entries that were saved; called before batches."""

    def leader_epochs(self) -> Sequence[tuple[int, int]]:
        """The entries as of now; saved when they differ from what was saved last."""

    def observe(self, batch: RecordBatch) -> tuple[int, int, int, int] | None:
        """Account for a batch, all of whose bytes are there; it may have been seen before.

        Returns what an abort marker adds to the transaction index: producer id, first offset,
        marker's offset, last stable offset after it."""

    def truncated(self, log_end_offset: int) -> None:
        """The log ends there: forget leader epochs that start at or after it.

        If anything was cut, ``reset`` or ``load_snapshot`` and batches follow for the rest."""

    def log_start_moved(self, log_start_offset: int) -> None:
        """The log starts there now: forget what concerns only offsets before it."""

"""The interface for state derived from a log: producers, leader epochs, transactions.

The log knows bytes and batches; the replica implements ``LogObserver``. The log feeds the observer
while it is loaded and after a truncation. The appender passes each appended batch to the observer
before the next append, since a snapshot is taken when the log rolls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.records.batch import RecordBatch


class LogObserver(Protocol):
    """State that is derived from a log's batches and can be saved and rebuilt."""

    def reset(self) -> None:
        """Forget producers and transactions; the batches from the log start will follow."""

    def load_snapshot(self, snapshot: bytes) -> bool:
        """Load saved producers; False if the snapshot is corrupt, and then nothing has changed.

        The batches from the snapshot's offset on will follow."""

    def snapshot(self) -> bytes:
        """The current producers, as the content of a ``.snapshot`` file."""

    @property
    def has_seen_markers(self) -> bool:
        """Whether any known producer has ended a transaction, at any offset."""

    @property
    def settled_offset(self) -> int:
        """Transactions that ended below this offset are settled; no snapshot needs their ends."""

    def load_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """Load the saved (epoch, start offset) entries; called before any batch."""

    def leader_epochs(self) -> Sequence[tuple[int, int]]:
        """The current entries; the log saves them when they have changed."""

    def observe(self, batch: RecordBatch) -> tuple[int, int, int, int] | None:
        """Account for a complete batch; it may have been observed before.

        Returns what an abort marker adds to the transaction index: producer id, first offset,
        marker's offset, last stable offset after it."""

    def truncated(self, log_end_offset: int) -> None:
        """Forget leader epochs that start at or after the new log end.

        If records were cut, ``reset`` or ``load_snapshot`` and the remaining batches follow."""

    def log_start_moved(self, log_start_offset: int) -> None:
        """Forget state that concerns only offsets before the new log start."""

"""Completes decided transactions: markers to every partition, then the final record.

The outcome is settled and nothing here can change it (TXN-60). Failed steps are retried until they
succeed, or until another coordinator takes over, which starts with the markers again (TXN-51,
hazard T-14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.outbox import Continuation
from ottla.coordinator.transaction.scope import Alarm, PendingTransition
from ottla.coordinator.transaction.transitions import completed

if TYPE_CHECKING:
    from ottla.coordinator.transaction.scope import TransactionEntry, TransactionScope
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition

RETRY_PAUSE_MS = 1_000.0
"""The producer waits for this end, and readers wait for the markers."""


class Completing:
    """Completes the transactions of one shard."""

    def __init__(self, scope: TransactionScope) -> None:
        self._scope = scope
        # Ids whose partitions all have their marker, while the final record is not written.
        self._marked: set[str] = set()
        # Partitions that refused the marker, by id; all other partitions of the id have theirs.
        self._refused: dict[str, tuple[TopicPartition, ...]] = {}

    def start(self, transaction: TransactionEntry) -> None:
        """Write the markers; the verdict is committed, or was found in the log."""
        known = transaction.metadata
        assert known is not None
        assert known.state.is_prepared
        assert transaction.pending is None
        scope, transactional_id = self._scope, transaction.transactional_id
        scope.deadlines.cancel((transactional_id, Alarm.TIMEOUT))
        if not known.partitions:
            self._complete(transaction)
            return

        def on_refused(partitions: tuple[TopicPartition, ...]) -> None:
            assert known.partitions.issuperset(partitions)
            assert transactional_id not in self._marked, "every partition had its marker"
            self._refused[transactional_id] = partitions
            self._pause(transactional_id)

        scope.outbox.write_markers(
            transactional_id,
            known,
            self._refused.pop(transactional_id, known.partitions),
            lambda: self._complete(transaction),
            on_refused,
        )

    def on_alarm(self, transaction: TransactionEntry) -> None:
        """Retry after the pause."""
        if transaction.transactional_id in self._marked:
            self._complete(transaction)
        else:
            self.start(transaction)

    def _complete(self, transaction: TransactionEntry) -> None:
        scope, transactional_id = self._scope, transaction.transactional_id
        known = transaction.metadata
        assert known is not None
        assert known.state.is_prepared
        assert transactional_id not in self._refused, "a partition has no marker"
        self._marked.add(transactional_id)

        def on_failed(error: ErrorCode) -> None:
            del error
            self._pause(transactional_id)

        after = completed(known, scope.moment.wall_ms)
        forget = Continuation(lambda: self._marked.discard(transactional_id), on_failed)
        end, begin = PendingTransition(after, forget), scope.next_after(transaction, after)
        scope.move(transaction, *((end,) if begin is None else (end, begin)))

    def _pause(self, transactional_id: str) -> None:
        # Also for refused markers: a replaced coordinator ends here soon; otherwise another client
        # used the producer id. Giving up would block the producer until the next coordinator,
        # though the partition may be deleted by then.
        due_ms = self._scope.moment.now_ms + RETRY_PAUSE_MS
        self._scope.deadlines.set((transactional_id, Alarm.COMPLETION), due_ms)

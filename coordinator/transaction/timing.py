"""Aborts transactions that exceed their timeout and expires unused transactional ids.

A transaction is aborted when its timeout has passed on the monotonic clock, counted from its first
partition or from when this coordinator took over: a step of the wall clock aborts nothing
(hazard T-19). An id expires by the wall clock, which its records use, if it was last used
transactional.id.expiration.ms ago and no transaction is open (TXN-59).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.outbox import Continuation, nothing
from ottla.coordinator.transaction.records import tombstone
from ottla.coordinator.transaction.scope import Alarm
from ottla.coordinator.transaction.states import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.coordinator.effects import LogRecord
    from ottla.coordinator.transaction.ending import Ending
    from ottla.coordinator.transaction.scope import TransactionEntry, TransactionScope
    from ottla.protocol.errors import ErrorCode

EXAMINED_PER_SLICE_MAX = 5_000
"""A few milliseconds: a sweep over a million ids must not hold up producers."""

TOMBSTONE_BATCH_BYTES_MAX = 128 * 1024
# Maximum overhead of a batch around its records, and of a record around its key.
_BATCH_OVERHEAD_BYTES = 128
_RECORD_OVERHEAD_BYTES = 32


class Timeouts:
    """One per shard; the code that opens a transaction sets its alarm."""

    def __init__(self, scope: TransactionScope, ending: Ending) -> None:
        self._scope = scope
        self._ending = ending

    def on_loaded(self, transaction: TransactionEntry) -> None:
        """Restart the timeout of an open transaction that was found in the log."""
        known = transaction.metadata
        assert known is not None
        assert known.state is TransactionState.ONGOING
        self._set(transaction, known.timeout_ms)

    def on_alarm(self, transaction: TransactionEntry) -> None:
        """Abort the transaction unless it is ending; a failed abort is retried."""
        known = transaction.metadata
        assert known is not None
        assert known.state is TransactionState.ONGOING, "the alarm goes with the transaction"
        self._set(transaction, self._scope.settings.timeout_check_interval_ms)
        if transaction.pending is None:
            again = Continuation(nothing, _ignore)
            self._ending.fence(transaction, again, is_replaced=False)

    def _set(self, transaction: TransactionEntry, after_ms: float) -> None:
        key = (transaction.transactional_id, Alarm.TIMEOUT)
        self._scope.deadlines.set(key, self._scope.moment.now_ms + after_ms)


class IdExpiry:
    """One per shard. A sweep over all ids starts every
    transaction.remove.expired.transaction.cleanup.interval.ms and runs in slices."""

    def __init__(self, scope: TransactionScope, examined_max: int = EXAMINED_PER_SLICE_MAX) -> None:
        self._scope = scope
        self._examined_max = examined_max
        self._sweep: Iterator[str] | None = None

    def on_alarm(self) -> None:
        """Run one slice of a sweep. The next one is due at once; requests may run in between."""
        scope = self._scope
        if not scope.moment.is_wall_trusted:
            # A clock step of a month would make every id look unused, and all their producers fail.
            self._sweep = None
            self.set_alarm()
            return
        if self._sweep is None:
            self._sweep = iter(list(scope.transactions))
        expired: list[TransactionEntry] = []
        for _ in range(self._examined_max):
            transactional_id = next(self._sweep, None)
            if transactional_id is None:
                self._sweep = None
                break
            transaction = scope.transactions.get(transactional_id)
            if transaction is not None and self._is_expired(transaction):
                expired.append(transaction)
        for batch in self._batches(expired):
            self._remove(batch)
        if self._sweep is None:
            self.set_alarm()
        else:
            scope.deadlines.set(("", Alarm.EXPIRY), scope.moment.now_ms)

    def set_alarm(self) -> None:
        """Schedule the next sweep."""
        due_ms = self._scope.moment.now_ms + self._scope.settings.expiry_check_interval_ms
        self._scope.deadlines.set(("", Alarm.EXPIRY), due_ms)

    def _is_expired(self, transaction: TransactionEntry) -> bool:
        """Whether the id expires; one that was never written is dropped here instead."""
        known = transaction.metadata
        if transaction.pending is not None:
            return False
        if known is None:
            del self._scope.transactions[transaction.transactional_id]
            return False
        unused_ms = self._scope.moment.wall_ms - known.last_update_wall_ms
        return known.state.is_idle and unused_ms >= self._scope.settings.expiration_ms

    def _batches(self, expired: list[TransactionEntry]) -> Iterator[dict[str, LogRecord]]:
        """Tombstones in portions, each one batch (hazard T-19)."""
        bytes_max = min(TOMBSTONE_BATCH_BYTES_MAX, self._scope.batch_bytes_max)
        batch: dict[str, LogRecord] = {}
        size_bytes = _BATCH_OVERHEAD_BYTES
        for transaction in expired:
            record = tombstone(transaction.transactional_id)
            record_bytes = len(record.key) + _RECORD_OVERHEAD_BYTES
            if batch and size_bytes + record_bytes > bytes_max:
                yield batch
                batch, size_bytes = {}, _BATCH_OVERHEAD_BYTES
            batch[transaction.transactional_id] = record
            size_bytes += record_bytes
        if batch:
            yield batch

    def _remove(self, batch: dict[str, LogRecord]) -> None:
        transactions = self._scope.transactions
        for transactional_id in batch:
            assert transactions[transactional_id].pending is None
            transactions[transactional_id].pending = TransactionState.DEAD

        def on_committed() -> None:
            for transactional_id in batch:
                assert transactions[transactional_id].pending is TransactionState.DEAD
                del transactions[transactional_id]

        def on_failed(error: ErrorCode) -> None:
            del error
            for transactional_id in batch:
                transactions[transactional_id].pending = None

        self._scope.outbox.append(list(batch.values()), Continuation(on_committed, on_failed))


def _ignore(error: ErrorCode) -> None:
    """Ignore the error: the alarm is set and retries."""

"""All producers of one partition, for idempotence and transactions.

The table is a function of the log. ``judge`` never changes it and is for client batches only;
``observe`` is called after a batch is in the log, by leader, follower and recovery, and never
refuses (hazards T-01, T-04, T-05). After a truncation the table is rebuilt: ``clear``, ``load`` the
latest snapshot at or below the new end, ``observe`` the rest (T-07).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.producer import (
    APPEND,
    BATCHES_MAX,
    NO_EPOCH,
    NO_OFFSET,
    AppendAction,
    AppendVerdict,
    ProducerState,
    WrittenBatch,
)
from ottla.broker.replica.snapshots import SnapshotEntry, decode_snapshot, encode_snapshot
from ottla.broker.replica.transactions import CompletedTransaction, PartitionTransactions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import NO_PRODUCER_ID, NO_SEQUENCE
from ottla.protocol.records.control import ControlType, read_marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.control import TransactionMarker


class ProducerTable:
    """Producer states by id; owned by the replica's history."""

    __slots__ = ("_next_offset", "_states", "transactions")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        # Batches before it are accounted for; a replay may repeat some of them.
        self._next_offset = 0
        self.transactions = PartitionTransactions()

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[tuple[int, ProducerState]]:
        """Producer ids in ascending order with their states, for snapshots and descriptions."""
        return iter(sorted(self._states.items()))

    @property
    def has_seen_markers(self) -> bool:
        """Whether any known producer has ended a transaction."""
        return any(state.coordinator_epoch != NO_EPOCH for state in self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        """A producer's state, None if unknown; the caller must not change it."""
        return self._states.get(producer_id)

    def judge(self, batch: RecordBatch) -> AppendVerdict:
        """The verdict on a client's batch; the table does not change."""
        state = self._states.get(batch.producer_id)
        return APPEND if state is None else state.judge(batch)

    def judge_marker(
        self, marker: TransactionMarker, transaction_version: int = 0
    ) -> AppendVerdict:
        """The verdict on a transaction marker that a coordinator sends.

        A replaced coordinator is fenced for good (hazard T-15). A marker that ends nothing and has
        no new epoch is a repetition: acknowledged, not appended (T-16). In version 2 each end has
        its own epoch, above that of the batches before it: a marker with the epoch of the open
        transaction is a late one of the previous transaction (KIP-1228)."""
        state = self._states.get(marker.producer_id)
        if state is None:
            return APPEND
        if marker.coordinator_epoch < state.coordinator_epoch:
            return AppendVerdict(AppendAction.REFUSE, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        if marker.producer_epoch < state.producer_epoch:
            return AppendVerdict(AppendAction.REFUSE, ErrorCode.INVALID_PRODUCER_EPOCH)
        if state.has_open_transaction:
            is_late = transaction_version >= 2 and marker.producer_epoch == state.producer_epoch
            return (
                AppendVerdict(AppendAction.REFUSE, ErrorCode.INVALID_PRODUCER_EPOCH)
                if is_late
                else APPEND
            )
        known = (state.producer_epoch, state.coordinator_epoch)
        is_new = known != (marker.producer_epoch, marker.coordinator_epoch)
        return APPEND if is_new else AppendVerdict(AppendAction.DUPLICATE)

    def observe(self, batch: RecordBatch) -> CompletedTransaction | None:
        """Account for a batch in the log; returns the transaction that it ended, if any.

        A batch that was observed before changes nothing."""
        if batch.producer_id == NO_PRODUCER_ID or batch.base_offset < self._next_offset:
            return None
        self._next_offset = batch.next_offset
        if batch.is_control:
            return self._observe_marker(batch)
        state = self._states.get(batch.producer_id)
        if state is None:
            state = self._states[batch.producer_id] = ProducerState()
        was_open = state.has_open_transaction
        state.add(batch)
        if state.has_open_transaction and not was_open:
            self.transactions.begin(batch.producer_id, batch.base_offset)
        return None

    def _observe_marker(self, batch: RecordBatch) -> CompletedTransaction | None:
        # Compaction empties a marker when no other record of its transaction is left.
        marker = read_marker(batch) if batch.record_count else None
        if marker is None:
            return None
        state = self._states.setdefault(batch.producer_id, ProducerState())
        state.end_transaction(batch.producer_epoch, marker.coordinator_epoch, batch.max_timestamp)
        is_aborted = marker.control_type is ControlType.ABORT
        return self.transactions.end(batch.producer_id, batch.base_offset, is_aborted=is_aborted)

    def expire(self, now_ms: float, expiration_ms: float) -> int:
        """Forget producers that were idle for that long; returns how many.

        Idle time counts from the first call after the last batch, by this process's clock; record
        timestamps are the client's and may be arbitrary (hazards T-06, S-18). A producer with an
        open transaction stays, or the transaction could not be ended; so does one whose transaction
        end may still be truncated."""
        gone = []
        for producer_id, state in self._states.items():
            if state.seen_ms is None:
                state.seen_ms = now_ms
            elif now_ms - state.seen_ms >= expiration_ms and not (
                state.has_open_transaction or self.transactions.awaits(producer_id)
            ):
                gone.append(producer_id)
        for producer_id in gone:
            del self._states[producer_id]
        # A transaction without its producer's state could never be ended (hazard T-06).
        assert self.transactions.open_transactions.keys() == {
            producer_id for producer_id, state in self._states.items() if state.has_open_transaction
        }
        return len(gone)

    def clear(self) -> None:
        """Forget everything; the log is about to be replayed."""
        self._states.clear()
        self._next_offset = 0
        self.transactions.clear()

    def snapshot(self) -> bytes:
        """The content of a ``.snapshot`` file as of the last observed batch."""
        return encode_snapshot(entry for item in self for entry in _entries_of(*item))

    def load(self, content: Buffer) -> None:
        """Replace the table by the content of a ``.snapshot`` file.

        Raises CorruptLogError, and then nothing has changed."""
        entries = decode_snapshot(content)
        self.clear()
        for entry in entries:
            state = self._states.get(entry.producer_id)
            if state is None or state.producer_epoch != entry.producer_epoch:
                state = self._states[entry.producer_id] = ProducerState(entry.producer_epoch)
            _take_in(state, entry)
            self._next_offset = max(self._next_offset, entry.last_offset + 1)
        for producer_id, state in self:
            if state.has_open_transaction:
                self.transactions.begin(producer_id, state.transaction_first_offset)


def _entries_of(producer_id: int, state: ProducerState) -> Iterable[SnapshotEntry]:
    batches = state.batches or [WrittenBatch(NO_SEQUENCE, NO_OFFSET, 0, state.last_timestamp)]
    newest = batches[-1]
    assert len(batches) <= BATCHES_MAX, "the reader of a snapshot keeps the last ones only"
    for written in batches:
        yield SnapshotEntry(
            producer_id,
            state.producer_epoch,
            written.last_sequence,
            written.last_offset,
            written.offset_delta,
            written.timestamp if written is not newest else state.last_timestamp,
            state.coordinator_epoch,
            state.transaction_first_offset,
        )


def _take_in(state: ProducerState, entry: SnapshotEntry) -> None:
    state.coordinator_epoch = entry.coordinator_epoch
    state.transaction_first_offset = entry.transaction_first_offset
    state.last_timestamp = entry.timestamp
    if entry.last_offset == NO_OFFSET:
        return
    state.batches.append(
        WrittenBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
    )
    del state.batches[:-BATCHES_MAX]

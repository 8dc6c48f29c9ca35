"""The state of one producer in one partition, and the check of its next batch (KIP-98, 185).

    the batch has                                   answer
    an epoch below the known one                    INVALID_PRODUCER_EPOCH
    a later epoch, sequence 0                       append
    a later epoch, another sequence                 OUT_OF_ORDER_SEQUENCE_NUMBER
    the sequences of one of the last five batches   duplicate: original offset, no error
    the sequence after the last one                 append
    anything else: a gap, an overlap, sequences     OUT_OF_ORDER_SEQUENCE_NUMBER
    older than the five remembered

An unknown producer may begin with any sequence: its records may have been deleted, and a refusal
would stop a correct client for good (hazard T-05); see producers.py.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import NO_SEQUENCE

if TYPE_CHECKING:
    from ottla.protocol.records.batch import RecordBatch

# KIP-185: clients keep at most five batches in flight and rely on all five being remembered.
BATCHES_MAX = 5
NO_EPOCH = -1
NO_OFFSET = -1
SEQUENCE_MASK = 0x7FFFFFFF


class AppendAction(Enum):
    """What the caller must do with a batch."""

    APPEND = auto()
    # It is in the log already: answer success with its offset.
    DUPLICATE = auto()
    REFUSE = auto()


class AppendVerdict(NamedTuple):
    """The verdict on a batch. Offsets and timestamp are those of the original, or -1.

    With acks=all a duplicate is answered only when ``last_offset`` is replicated."""

    action: AppendAction
    error: ErrorCode = ErrorCode.NONE
    base_offset: int = NO_OFFSET
    last_offset: int = NO_OFFSET
    timestamp: int = -1


APPEND = AppendVerdict(AppendAction.APPEND)


def _refuse(error: ErrorCode) -> AppendVerdict:
    return AppendVerdict(AppendAction.REFUSE, error)


class WrittenBatch(NamedTuple):
    """One remembered batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerState:
    """The state of one producer id in one partition; changed by the table only."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_timestamp",
        "producer_epoch",
        "seen_ms",
        "transaction_first_offset",
    )

    def __init__(self, producer_epoch: int = NO_EPOCH) -> None:
        self.producer_epoch = producer_epoch
        self.batches: list[WrittenBatch] = []
        self.coordinator_epoch = NO_EPOCH
        self.transaction_first_offset = NO_OFFSET
        self.last_timestamp = -1
        # When the first expiry run after its last batch saw it; None before that.
        self.seen_ms: float | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def has_open_transaction(self) -> bool:
        return self.transaction_first_offset != NO_OFFSET

    def copy(self) -> ProducerState:
        twin = ProducerState(self.producer_epoch)
        twin.batches = self.batches.copy()
        twin.coordinator_epoch = self.coordinator_epoch
        twin.transaction_first_offset = self.transaction_first_offset
        twin.last_timestamp = self.last_timestamp
        twin.seen_ms = self.seen_ms
        return twin

    def enter_epoch(self, producer_epoch: int) -> None:
        """Enter an epoch; a new one drops the batches, since sequences restart."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches = []

    def add(self, batch: RecordBatch) -> None:
        """Account for a data batch in the log."""
        self.enter_epoch(batch.producer_epoch)
        self.seen_ms = None
        self.last_timestamp = batch.max_timestamp
        if batch.is_transactional and not self.has_open_transaction:
            self.transaction_first_offset = batch.base_offset
        if batch.base_sequence == NO_SEQUENCE:
            return
        # A batch that was observed twice would fill the memory of sequences (hazard T-01).
        assert not self.batches or self.batches[-1].last_offset < batch.base_offset, batch
        written = WrittenBatch(
            batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp
        )
        self.batches.append(written)
        if len(self.batches) > BATCHES_MAX:
            del self.batches[0]

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Account for a marker in the log.

        It postpones expiry as data does: for a forgotten producer, a coordinator that was replaced
        could write markers again (hazard T-06)."""
        self.enter_epoch(producer_epoch)
        self.seen_ms = None
        self.last_timestamp = timestamp
        self.coordinator_epoch = max(self.coordinator_epoch, coordinator_epoch)
        self.transaction_first_offset = NO_OFFSET

    def judge(self, batch: RecordBatch) -> AppendVerdict:
        """What to do with a batch of this producer; see the table at the top."""
        if batch.producer_epoch < self.producer_epoch:
            return _refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
        if self.has_open_transaction and not batch.is_transactional:
            return _refuse(ErrorCode.INVALID_TXN_STATE)
        base_sequence = batch.base_sequence
        if base_sequence == NO_SEQUENCE or (self.producer_epoch == NO_EPOCH and not self.batches):
            # Coordinators write transactional offsets without sequences.
            return APPEND
        if batch.producer_epoch > self.producer_epoch or not self.batches:
            if base_sequence == 0:
                return APPEND
            return _refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if base_sequence == (self.batches[-1].last_sequence + 1) & SEQUENCE_MASK:
            return APPEND
        return self._judge_older(batch)

    def _judge_older(self, batch: RecordBatch) -> AppendVerdict:
        assert self.batches, "a producer of which nothing is known may begin anywhere (T-05)"
        last_sequence, delta = batch.last_sequence, batch.last_offset_delta
        for written in self.batches:
            if written.last_sequence == last_sequence and written.offset_delta == delta:
                # Sequences of an ended transaction do not count as duplicates: a client that reuses
                # one after an abort sends other records (hazard T-09).
                if batch.is_transactional and not self._is_in_open_transaction(written):
                    break
                return AppendVerdict(
                    AppendAction.DUPLICATE,
                    base_offset=written.base_offset,
                    last_offset=written.last_offset,
                    timestamp=written.timestamp,
                )
        return _refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def _is_in_open_transaction(self, written: WrittenBatch) -> bool:
        return self.has_open_transaction and written.base_offset >= self.transaction_first_offset

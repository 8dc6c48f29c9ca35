"""One batch of a producer: records that are sent, succeed and fail together. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.client.records.producer_record import item_size_bytes
from ottla.client.sending.sequences import NO_STAMP, Stamp, add_to_sequence
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.client.records.producer_record import Item
    from ottla.client.records.row_runs import RowRun
    from ottla.protocol.ids import TopicPartition

# The header of a record batch.
BATCH_OVERHEAD_BYTES = 61


class BatchPhase(Enum):
    """OPEN takes records; CLOSED waits to be sent (again); IN_FLIGHT waits for an answer; DONE."""

    OPEN = "open"
    CLOSED = "closed"
    IN_FLIGHT = "in flight"
    DONE = "done"


class Batch:
    """Owned and changed by the accumulator only; compared and hashed by identity."""

    __slots__ = (
        "attempts",
        "created_ms",
        "encoded",
        "follows_gap",
        "halves",
        "is_part_of_unknown",
        "items",
        "last_answer",
        "not_before_ms",
        "outcome_unknown",
        "part",
        "partition",
        "phase",
        "size_bytes",
        "stamp",
    )

    def __init__(self, partition: TopicPartition, created_ms: float) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.phase = BatchPhase.OPEN
        # The records: items that were added one by one, or a run of rows that arrived together.
        self.items: list[Item] = []
        self.part: RowRun | None = None
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.stamp: Stamp = NO_STAMP
        self.encoded: bytearray | None = None
        self.attempts = 0
        self.not_before_ms = 0.0
        # True once an attempt may have been appended without the producer knowing.
        self.outcome_unknown = False
        # The batch numbered before it was given up: the gap in the sequence is this producer's
        # doing.
        self.follows_gap = False
        # The batch it was split from may have been appended without the producer knowing.
        self.is_part_of_unknown = False
        self.last_answer = ErrorCode.NONE
        # The two batches it was split into.
        self.halves: tuple[Batch, ...] = ()

    def __repr__(self) -> str:
        topic, partition = self.partition
        return f"Batch({topic}-{partition}, {self.record_count} records, {self.phase.value})"

    @property
    def record_count(self) -> int:
        return len(self.items) if self.part is None else self.part.record_count

    @property
    def is_numbered(self) -> bool:
        """Whether it has a sequence, that is, has been sent by an idempotent producer."""
        return self.stamp.base_sequence >= 0

    def split(self) -> tuple[Batch, Batch]:
        """Split a batch that is too large for its topic into two (KIP-126).

        The halves keep its sequence numbers between them, so that later numbered batches follow on.
        """
        count = self.record_count // 2
        assert count > 0
        first, second = (
            Batch(self.partition, self.created_ms),
            Batch(self.partition, self.created_ms),
        )
        if self.part is not None:
            middle = self.part.start + count
            first.part = self.part._replace(stop=middle)
            second.part = self.part._replace(start=middle)
        else:
            first.items, second.items = self.items[:count], self.items[count:]
        for half in (first, second):
            half.phase = BatchPhase.CLOSED
            half.attempts = self.attempts
            half.last_answer = self.last_answer
            half.is_part_of_unknown = self.outcome_unknown or self.is_part_of_unknown
            half.size_bytes += (
                sum(map(item_size_bytes, half.items)) if half.part is None else half.part.size_bytes
            )
        if self.is_numbered:
            sequence = add_to_sequence(self.stamp.base_sequence, count)
            first.stamp, second.stamp = self.stamp, self.stamp._replace(base_sequence=sequence)
        first.follows_gap = self.follows_gap
        self.halves = first, second
        return first, second

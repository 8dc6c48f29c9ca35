"""One batch of a producer: records that travel, succeed and fail together. Pure."""

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
    """OPEN takes records; CLOSED waits to be sent (again); IN_FLIGHT is on the wire; DONE."""

    OPEN = "open"
    CLOSED = "closed"
    IN_FLIGHT = "in flight"
    DONE = "done"


class Batch:
    """Made and changed by the accumulator only; compared and hashed by identity."""

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
        # What is in it: items that were added one by one, or a part of many that came at once.
        self.items: list[Item] = []
        self.part: RowRun | None = None
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.stamp: Stamp = NO_STAMP
        self.encoded: bytearray | None = None
        self.attempts = 0
        self.not_before_ms = 0.0
        # True once a try may have been appended without our knowing.
        self.outcome_unknown = False
        # The batch numbered before it was given up: a gap in the sequence is our own doing.
        self.follows_gap = False
        # The whole that it is a half of may have been appended without our knowing.
        self.is_part_of_unknown = False
        self.last_answer = ErrorCode.NONE
        # What it was split into.
        self.halves: tuple[Batch, ...] = ()

    def __repr__(self) -> str:
        topic, partition = self.partition
        return f"Batch({topic}-{partition}, {self.record_count} records, {self.phase.value})"

    @property
    def record_count(self) -> int:
        return len(self.items) if self.part is None else self.part.record_count

    @property
    def is_numbered(self) -> bool:
        """Whether it has a sequence, that is, has been on the wire of an idempotent producer."""
        return self.stamp.base_sequence >= 0

    def split(self) -> tuple[Batch, Batch]:
        """Two batches in its place, which is too large for its topic (KIP-126). They keep its
        sequence numbers between them: whatever is numbered already stays right behind."""
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

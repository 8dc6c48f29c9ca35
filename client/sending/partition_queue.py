"""One partition's batches in a producer, in the order of their records. Pure.

First those that have been sent and are not resolved, then the unsent ones. A batch that came back
holds up everything behind it that is not in flight already, so a retry never changes the order
(requirement IDM-10).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.client.sending.batch import Batch, BatchPhase
from ottla.client.sending.sequences import NO_STAMP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ids import TopicPartition


class PartitionQueue:
    """Owned by the accumulator. ``window`` limits the sent batches that are not resolved."""

    __slots__ = (
        "ends_in_gap",
        "in_flight_count",
        "node_id",
        "partition",
        "restarting",
        "sent",
        "unsent",
        "window",
    )

    def __init__(self, partition: TopicPartition, window: int) -> None:
        assert window > 0
        self.partition = partition
        self.window = window
        self.sent: deque[Batch] = deque()
        self.unsent: deque[Batch] = deque()
        self.in_flight_count = 0
        # The broker that has the batches in flight.
        self.node_id = -1
        # The last numbered batch was given up, so the next one to be numbered follows a gap.
        self.ends_in_gap = False
        # Nothing is sent until all batches in flight have come back and the queue is renumbered.
        self.restarting = False

    @property
    def is_empty(self) -> bool:
        return not self.sent and not self.unsent

    def __iter__(self) -> Iterator[Batch]:
        yield from self.sent
        yield from self.unsent

    def next_batch(self) -> Batch | None:
        """Return the only batch that may be sent next: the oldest returned, else the oldest new."""
        if self.restarting:
            return None
        if self.in_flight_count < min(len(self.sent), self.window):
            for batch in self.sent:
                if batch.phase is not BatchPhase.IN_FLIGHT:
                    return batch
        if self.unsent and len(self.sent) < self.window:
            return self.unsent[0]
        return None

    def is_oldest(self, batch: Batch) -> bool:
        """Return whether every earlier batch is resolved."""
        return bool(self.sent) and self.sent[0] is batch

    def depart(self, batch: Batch, node_id: int) -> None:
        """Record that the batch is sent to that broker."""
        assert batch.phase in (BatchPhase.OPEN, BatchPhase.CLOSED)
        # Two brokers at once could append the later batch first.
        assert self.in_flight_count == 0 or self.node_id == node_id
        if self.unsent and self.unsent[0] is batch:
            self.sent.append(self.unsent.popleft())
        assert batch in self.sent
        batch.phase = BatchPhase.IN_FLIGHT
        batch.attempts += 1
        self.in_flight_count += 1
        self.node_id = node_id

    def return_batch(self, batch: Batch, not_before_ms: float) -> None:
        """Queue the batch again, at its old position and with its old sequence."""
        assert batch.phase is BatchPhase.IN_FLIGHT
        batch.phase = BatchPhase.CLOSED
        batch.not_before_ms = not_before_ms
        self.in_flight_count -= 1

    def split(self, batch: Batch) -> tuple[Batch, Batch]:
        """Replace a batch that was too large by its halves, at its position."""
        assert batch.phase is BatchPhase.IN_FLIGHT
        halves = batch.split()
        place = self.sent.index(batch)
        self.remove(batch)
        for half in reversed(halves):
            self.sent.insert(place, half)
        return halves

    def leave_gap(self, batch: Batch) -> None:
        """Before the batch is given up, mark the batch numbered right behind it: it follows a gap.

        Only that batch, not the oldest one: earlier batches are not affected by the gap, and their
        sequence errors are real."""
        place = self.sent.index(batch)
        if place + 1 < len(self.sent):
            self.sent[place + 1].follows_gap = True
        else:
            self.ends_in_gap = True

    def remove(self, batch: Batch) -> None:
        """Remove a batch that is delivered or given up."""
        assert batch.phase is not BatchPhase.DONE
        if batch.phase is BatchPhase.IN_FLIGHT:
            self.in_flight_count -= 1
        batch.phase = BatchPhase.DONE
        if batch in self.sent:
            self.sent.remove(batch)
        else:
            self.unsent.remove(batch)

    def begin_epoch(self, window: int) -> None:
        """Begin a new epoch with an empty queue."""
        assert self.is_empty
        self.window = window
        self.ends_in_gap = False

    def take_numbers_back(self) -> None:
        """Turn every sent batch back into an unsent one, without a number."""
        assert self.in_flight_count == 0
        while self.sent:
            batch = self.sent.pop()
            batch.stamp = NO_STAMP
            batch.encoded = None
            batch.outcome_unknown = False
            batch.follows_gap = False
            self.unsent.appendleft(batch)
        self.ends_in_gap = False
        self.restarting = False

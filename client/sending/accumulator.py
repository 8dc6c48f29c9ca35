"""The producer's memory: what is to be sent, in which order, how much of it. Pure.

Order within a partition is the line's business. Here it is decided which records share a batch,
when a batch is worth sending, which batches share a request, and that the bytes kept never exceed
their limit: past it nothing is taken.
"""

from __future__ import annotations

from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING

from ottla.client.records.producer_record import RECORD_OVERHEAD_BYTES, Item
from ottla.client.sending.batch import BATCH_OVERHEAD_BYTES, Batch, BatchPhase
from ottla.client.sending.partition_queue import Line
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.client.records.row_runs import RowRun
    from ottla.client.settings.accumulator_limits import AccumulatorLimits
    from ottla.protocol.ids import TopicPartition

# Looking a member of an enumeration up costs more than comparing it.
OPEN = BatchPhase.OPEN
# From half a batch on, records that came together are encoded as they came.
SHARE_OF_OWN_BATCH = 2


class AppendedRows(NamedTuple):
    """Where records went, and the place of the first among all of that batch."""

    batch: Batch
    first_index: int


@dataclass(slots=True)
class Collected:
    """What can go out now: at most one batch per partition for each broker.

    ``wake_ms`` is when the next batch becomes due if nothing else happens."""

    by_node: dict[int, list[Batch]] = field(default_factory=dict)
    leaderless: set[str] = field(default_factory=set)
    wake_ms: float | None = None


class Accumulator:
    """All lines of one producer."""

    __slots__ = (
        "_idle",
        "_limits",
        "_lines",
        "flushing",
        "held_bytes",
        "progress_ms",
        "room_bytes",
    )

    def __init__(self, limits: AccumulatorLimits) -> None:
        self._limits = limits
        # Lines that have a batch, in the order in which they are to be served.
        self._lines: dict[TopicPartition, Line] = {}
        self._idle: dict[TopicPartition, Line] = {}
        # When a batch was acknowledged last.
        self.progress_ms = -1.0
        self.held_bytes = 0
        # What may be held: less than the memory while somebody waits for some of it.
        self.room_bytes = limits.memory_bytes_max
        # How many wait for everything to be sent; while there is one, nothing lingers.
        self.flushing = 0

    def __len__(self) -> int:
        """How many batches are not resolved."""
        return sum(len(line.sent) + len(line.unsent) for line in self._lines.values())

    def append_open(self, partition: TopicPartition, item: Item, size_bytes: int) -> Batch | None:
        """Take one record of that ``item_size_bytes`` into the partition's open batch.

        None, and nothing is taken, if there is no open batch, or no room in it or in the memory.
        HOT: once per record; everything else happens once per batch."""
        line = self._lines.get(partition)
        if line is None or not line.unsent:
            return None
        batch = line.unsent[-1]
        if (
            batch.phase is not BatchPhase.OPEN
            or batch.size_bytes + size_bytes > self._limits.batch_bytes
            or self.held_bytes + size_bytes > self.room_bytes
        ):
            return None
        batch.items.append(item)
        batch.size_bytes += size_bytes
        self.held_bytes += size_bytes
        return batch

    def append_value(self, batch: Batch, timestamp: int, value: bytes) -> bool:
        """Take a record of a value alone into a batch of before, if that is open still and there
        is room; else False, and nothing is taken. HOT: the cheapest way in."""
        size_bytes = RECORD_OVERHEAD_BYTES + len(value)
        batch_bytes, held_bytes = batch.size_bytes + size_bytes, self.held_bytes + size_bytes
        if (
            batch.phase is not OPEN
            or batch_bytes > self._limits.batch_bytes
            or held_bytes > self.room_bytes
        ):
            return False
        batch.items.append((timestamp, None, value, ()))
        batch.size_bytes = batch_bytes
        self.held_bytes = held_bytes
        return True

    def append(
        self, partition: TopicPartition, item: Item, size_bytes: int, now_ms: float
    ) -> Batch | None:
        """Take one record into a batch of its partition, a new one if need be.

        None, and nothing is taken, when the memory is full."""
        batch = self.append_open(partition, item, size_bytes)
        if batch is None and self.has_room(size_bytes):
            batch = self._new_batch(partition, now_ms)
            batch.items.append(item)
            batch.size_bytes += size_bytes
            self.held_bytes += size_bytes
            if batch.size_bytes >= self._limits.batch_bytes:
                batch.phase = BatchPhase.CLOSED
        return batch

    def append_part(self, partition: TopicPartition, part: RowRun, now_ms: float) -> AppendedRows:
        """Take records that came together; the caller has seen that there is room for them.

        Many are a batch of their own, which is closed. A few share the open one: small calls
        shall not make small batches."""
        size_bytes = part.size_bytes
        if size_bytes * SHARE_OF_OWN_BATCH >= self._limits.batch_bytes:
            batch, first_index = self._new_batch(partition, now_ms), 0
            batch.part = part
            batch.phase = BatchPhase.CLOSED
        else:
            # First of all: columns may turn out not to hold what they should.
            items = part.items()
            batch = self._open_batch(partition, size_bytes) or self._new_batch(partition, now_ms)
            first_index = len(batch.items)
            batch.items += items
        batch.size_bytes += size_bytes
        self.held_bytes += size_bytes
        return AppendedRows(batch, first_index)

    def _open_batch(self, partition: TopicPartition, size_bytes: int) -> Batch | None:
        """The batch that takes so much more, if there is one."""
        line = self._lines.get(partition)
        if line is None or not line.unsent:
            return None
        batch = line.unsent[-1]
        if (
            batch.phase is not BatchPhase.OPEN
            or batch.size_bytes + size_bytes > self._limits.batch_bytes
        ):
            return None
        return batch

    def has_room(self, size_bytes: int) -> bool:
        """Whether a record of that size can be taken now."""
        # A lone record may exceed the memory: it would wait for ever otherwise.
        needed_bytes = self.held_bytes + BATCH_OVERHEAD_BYTES + size_bytes
        return self.held_bytes == 0 or needed_bytes <= self._limits.memory_bytes_max

    def begin_wait(self, size_bytes: int) -> None:
        """Somebody waits for so much room: what is free is left to them, and nothing lingers.

        Those who need less would take every bit of it as soon as it is free."""
        self.room_bytes = self._limits.memory_bytes_max - BATCH_OVERHEAD_BYTES - size_bytes
        self.flushing += 1

    def end_wait(self) -> None:
        """They have got it, or do not want it any more."""
        self.room_bytes = self._limits.memory_bytes_max
        self.flushing -= 1

    def _new_batch(self, partition: TopicPartition, now_ms: float) -> Batch:
        line = self._lines.get(partition)
        if line is None:
            line = self._idle.pop(partition, None) or Line(partition, self._limits.first_window)
            self._lines[partition] = line
        if line.unsent:
            # The new record did not fit into it.
            line.unsent[-1].phase = BatchPhase.CLOSED
        batch = Batch(partition, now_ms)
        self.held_bytes += batch.size_bytes
        line.unsent.append(batch)
        return batch

    def collect(
        self,
        now_ms: float,
        leader_of: Callable[[TopicPartition], int | None],
        may_send: Callable[[int], bool],
        may_go: Callable[[TopicPartition], bool] | None = None,
    ) -> Collected:
        """Choose what goes out now; the caller then lets each ``depart``. ``may_go`` can hold
        partitions back, whatever is due.

        A broker gets a request once one of its batches is due; then its other partitions add what
        they have, because the request costs the same."""
        found = Collected()
        waiting: dict[int, list[Batch]] = {}
        due: set[int] = set()
        for line in self._lines.values():
            if not line.unsent and line.in_flight_count == len(line.sent):
                continue
            batch = line.next_batch()
            if batch is None or (may_go is not None and not may_go(line.partition)):
                continue
            leader = leader_of(line.partition)
            if leader is None:
                found.leaderless.add(line.partition.topic)
                continue
            if line.in_flight_count and line.node_id != leader:
                continue
            due_ms = self._due_ms(batch)
            if due_ms <= now_ms:
                due.add(leader)
            else:
                found.wake_ms = due_ms if found.wake_ms is None else min(found.wake_ms, due_ms)
            if batch.not_before_ms <= now_ms:
                waiting.setdefault(leader, []).append(batch)
        for leader in sorted(due):
            if may_send(leader):
                limit_bytes = self._limits.request_bytes_max
                found.by_node[leader] = within_one_request(waiting[leader], limit_bytes)
        return found

    def _due_ms(self, batch: Batch) -> float:
        """From when on the batch is worth a request of its own."""
        if batch.phase is BatchPhase.CLOSED or self.flushing or self.is_short_of_memory:
            return batch.not_before_ms
        return max(batch.not_before_ms, batch.created_ms + self._limits.linger_ms)

    @property
    def is_short_of_memory(self) -> bool:
        """Whether another batch would not fit, so that waiting for more records is pointless."""
        return self.held_bytes > self._limits.memory_bytes_max - self._limits.batch_bytes

    def depart(self, batch: Batch, node_id: int) -> Line:
        """The batch is on its way to that broker: return its line."""
        line = self._lines.pop(batch.partition)
        line.depart(batch, node_id)
        # Last in turn now, so that a partition that always has something cannot starve others.
        self._lines[batch.partition] = line
        return line

    def resolve(self, batch: Batch) -> Line:
        """The batch is delivered or given up: forget it, free its memory and return its line."""
        line = self._lines[batch.partition]
        line.remove(batch)
        self.held_bytes -= batch.size_bytes
        assert self.held_bytes >= 0
        if not line.sent and not line.unsent:
            self._idle[batch.partition] = self._lines.pop(batch.partition)
        return line

    def split(self, batch: Batch) -> None:
        """The batch is too large for its topic: two smaller ones stand in its place."""
        halves = self._lines[batch.partition].split(batch)
        self.held_bytes += sum(half.size_bytes for half in halves) - batch.size_bytes

    def line(self, partition: TopicPartition) -> Line:
        """The line of a partition that has taken a record before."""
        line = self._lines.get(partition)
        return line if line is not None else self._idle[partition]

    def begin_epoch(self) -> None:
        """All partitions are numbered anew; nothing is unresolved. As with a new producer, a leader
        that has forgotten this one would take a second batch for the first."""
        assert not self._lines
        for line in self._idle.values():
            line.begin_epoch(self._limits.first_window)

    def expired(self, now_ms: float) -> list[Batch]:
        """Batches that ran out of time off the wire; those on it wait for their answer."""
        late = []
        for line in self._lines.values():
            for batch in chain(line.sent, line.unsent):
                if self._expiry_ms(batch.created_ms) > now_ms:
                    break
                if batch.phase is not BatchPhase.IN_FLIGHT:
                    late.append(batch)
        return late

    def next_expiry_ms(self) -> float | None:
        """When the oldest batch that is not on the wire runs out of time."""
        oldest_ms = None
        for line in self._lines.values():
            if not line.unsent and line.in_flight_count == len(line.sent):
                continue
            for batch in chain(line.sent, line.unsent):
                if batch.phase is not BatchPhase.IN_FLIGHT:
                    if oldest_ms is None or batch.created_ms < oldest_ms:
                        oldest_ms = batch.created_ms
                    break
        return None if oldest_ms is None else self._expiry_ms(oldest_ms)

    def _expiry_ms(self, created_ms: float) -> float:
        if self._limits.waits_for_progress:
            created_ms = max(created_ms, self.progress_ms)
        return created_ms + self._limits.delivery_timeout_ms

    def unresolved(self) -> list[Batch]:
        """Every batch that is not resolved."""
        return [batch for line in self._lines.values() for batch in line]


def within_one_request(batches: Iterable[Batch], limit_bytes: int) -> list[Batch]:
    """As many of the batches as one request may hold, at least one."""
    chosen: list[Batch] = []
    size_bytes = 0
    for batch in batches:
        if chosen and size_bytes + batch.size_bytes > limit_bytes:
            continue
        size_bytes += batch.size_bytes
        chosen.append(batch)
    return chosen

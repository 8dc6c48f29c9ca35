"""Holds the producer's memory: the batches to send, their order and their size. Pure.

``PartitionQueue`` keeps the order within a partition. The accumulator decides which records share a
batch, when a batch is worth sending, and which batches share a request. The bytes held never exceed
the limit: past it no record is taken.
"""

from __future__ import annotations

from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING

from ottla.client.records.producer_record import RECORD_OVERHEAD_BYTES, Item
from ottla.client.sending.batch import BATCH_OVERHEAD_BYTES, Batch, BatchPhase
from ottla.client.sending.partition_queue import PartitionQueue
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.client.records.row_runs import RowRun
    from ottla.client.settings.accumulator_limits import AccumulatorLimits
    from ottla.protocol.ids import TopicPartition

# Looking up a member of an enumeration costs more than comparing it.
OPEN = BatchPhase.OPEN
# From half a batch on, records that arrived together get a batch of their own.
SHARE_OF_OWN_BATCH = 2


class AppendedRows(NamedTuple):
    """The batch that took the rows, and the index of the first one in it."""

    batch: Batch
    first_index: int


@dataclass(slots=True)
class Collected:
    """What can be sent now: at most one batch per partition for each broker.

    ``wake_ms`` is when the next batch becomes due or runs out of time, if nothing else happens."""

    by_node: dict[int, list[Batch]] = field(default_factory=dict)
    leaderless: set[str] = field(default_factory=set)
    wake_ms: float | None = None


class Accumulator:
    """The queues of all partitions of one producer. Owned by its sender."""

    __slots__ = (
        "_idle",
        "_limits",
        "_queues",
        "flushing",
        "held_bytes",
        "progress_ms",
        "room_bytes",
    )

    def __init__(self, limits: AccumulatorLimits) -> None:
        self._limits = limits
        # Queues that have a batch, in the order in which they are served.
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._idle: dict[TopicPartition, PartitionQueue] = {}
        # When a batch was acknowledged last.
        self.progress_ms = -1.0
        self.held_bytes = 0
        # The bytes that may be held: less than the memory while a caller waits for room.
        self.room_bytes = limits.memory_bytes_max
        # How many callers wait for everything to be sent; while there is one, linger is disabled.
        self.flushing = 0

    def __len__(self) -> int:
        """Return the number of unresolved batches."""
        return sum(len(queue.sent) + len(queue.unsent) for queue in self._queues.values())

    def append_open(self, partition: TopicPartition, item: Item, size_bytes: int) -> Batch | None:
        """Append one record of that ``item_size_bytes`` to the partition's open batch.

        Returns None, and takes nothing, if there is no open batch, or no room in it or in the
        memory. HOT: once per record; everything else happens once per batch."""
        queue = self._queues.get(partition)
        if queue is None or not queue.unsent:
            return None
        batch = queue.unsent[-1]
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
        """Append a record with only a value to a known batch, if that is still open and there is
        room; else return False. HOT: the cheapest way in."""
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
        """Append one record to a batch of its partition, a new one if needed.

        Returns None, and takes nothing, if the memory is full."""
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
        """Append records that arrived together; the caller has checked that there is room.

        Many records get a closed batch of their own. A few share the open one, so that small calls
        do not make small batches."""
        size_bytes = part.size_bytes
        if size_bytes * SHARE_OF_OWN_BATCH >= self._limits.batch_bytes:
            batch, first_index = self._new_batch(partition, now_ms), 0
            batch.part = part
            batch.phase = BatchPhase.CLOSED
        else:
            # Before any change of state: columns may turn out to hold invalid data.
            items = part.items()
            batch = self._open_batch(partition, size_bytes) or self._new_batch(partition, now_ms)
            first_index = len(batch.items)
            batch.items += items
        batch.size_bytes += size_bytes
        self.held_bytes += size_bytes
        return AppendedRows(batch, first_index)

    def _open_batch(self, partition: TopicPartition, size_bytes: int) -> Batch | None:
        """Return the open batch if it has that much room, else None."""
        queue = self._queues.get(partition)
        if queue is None or not queue.unsent:
            return None
        batch = queue.unsent[-1]
        if (
            batch.phase is not BatchPhase.OPEN
            or batch.size_bytes + size_bytes > self._limits.batch_bytes
        ):
            return None
        return batch

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a record of that size can be taken now."""
        # A lone record may exceed the memory: it would wait for ever otherwise.
        needed_bytes = self.held_bytes + BATCH_OVERHEAD_BYTES + size_bytes
        return self.held_bytes == 0 or needed_bytes <= self._limits.memory_bytes_max

    def begin_wait(self, size_bytes: int) -> None:
        """Reserve free memory for a caller that waits for that much room, and disable linger.

        Otherwise callers that need less would take all memory as soon as it is free."""
        self.room_bytes = self._limits.memory_bytes_max - BATCH_OVERHEAD_BYTES - size_bytes
        self.flushing += 1

    def end_wait(self) -> None:
        """End the reservation: the caller has got its room, or has stopped waiting."""
        self.room_bytes = self._limits.memory_bytes_max
        self.flushing -= 1

    def _new_batch(self, partition: TopicPartition, now_ms: float) -> Batch:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._idle.pop(partition, None) or PartitionQueue(
                partition, self._limits.first_window
            )
            self._queues[partition] = queue
        if queue.unsent:
            # The new record did not fit into it.
            queue.unsent[-1].phase = BatchPhase.CLOSED
        batch = Batch(partition, now_ms)
        self.held_bytes += batch.size_bytes
        queue.unsent.append(batch)
        return batch

    def collect(
        self,
        now_ms: float,
        leader_of: Callable[[TopicPartition], int | None],
        may_send: Callable[[int], bool],
        may_go: Callable[[TopicPartition], bool] | None = None,
    ) -> Collected:
        """Choose what to send now; the caller then lets each batch ``depart``. ``may_go`` can hold
        partitions back.

        A broker gets a request once one of its batches is due; its other partitions then add what
        they have, because the request costs the same."""
        found = Collected(wake_ms=self.next_expiry_ms())
        waiting: dict[int, list[Batch]] = {}
        due: set[int] = set()
        for queue in self._queues.values():
            if not queue.unsent and queue.in_flight_count == len(queue.sent):
                continue
            batch = queue.next_batch()
            if batch is None or (may_go is not None and not may_go(queue.partition)):
                continue
            leader = leader_of(queue.partition)
            if leader is None:
                found.leaderless.add(queue.partition.topic)
                continue
            if queue.in_flight_count and queue.node_id != leader:
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
        """Return the time from which the batch is worth a request of its own."""
        if batch.phase is BatchPhase.CLOSED or self.flushing or self.is_short_of_memory:
            return batch.not_before_ms
        return max(batch.not_before_ms, batch.created_ms + self._limits.linger_ms)

    @property
    def is_short_of_memory(self) -> bool:
        """Whether another batch would not fit, so that waiting for more records is pointless."""
        return self.held_bytes > self._limits.memory_bytes_max - self._limits.batch_bytes

    def depart(self, batch: Batch, node_id: int) -> PartitionQueue:
        """Record that the batch is sent to that broker; return its queue."""
        queue = self._queues.pop(batch.partition)
        queue.depart(batch, node_id)
        # Moved to the end, so that a partition that always has records cannot starve others.
        self._queues[batch.partition] = queue
        return queue

    def resolve(self, batch: Batch) -> PartitionQueue:
        """Forget a batch that is delivered or given up, free its memory and return its queue."""
        queue = self._queues[batch.partition]
        queue.remove(batch)
        self.held_bytes -= batch.size_bytes
        assert self.held_bytes >= 0
        if not queue.sent and not queue.unsent:
            self._idle[batch.partition] = self._queues.pop(batch.partition)
        return queue

    def split(self, batch: Batch) -> None:
        """Replace a batch that is too large for its topic by two halves."""
        halves = self._queues[batch.partition].split(batch)
        self.held_bytes += sum(half.size_bytes for half in halves) - batch.size_bytes

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition that has taken a record before."""
        queue = self._queues.get(partition)
        return queue if queue is not None else self._idle[partition]

    def begin_epoch(self) -> None:
        """Begin a new epoch for all partitions; no batch is unresolved.

        The window restarts as for a new producer: a leader that has forgotten this one would take a
        second batch for the first."""
        assert not self._queues
        for queue in self._idle.values():
            queue.begin_epoch(self._limits.first_window)

    def expired(self, now_ms: float) -> list[Batch]:
        """Return batches that ran out of time; those in flight wait for their answer."""
        late = []
        for queue in self._queues.values():
            for batch in chain(queue.sent, queue.unsent):
                if self._expiry_ms(batch.created_ms) > now_ms:
                    break
                if batch.phase is not BatchPhase.IN_FLIGHT:
                    late.append(batch)
        return late

    def next_expiry_ms(self) -> float | None:
        """Return when the oldest batch that is not in flight runs out of time."""
        oldest_ms = None
        for queue in self._queues.values():
            if not queue.unsent and queue.in_flight_count == len(queue.sent):
                continue
            for batch in chain(queue.sent, queue.unsent):
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
        """Return every unresolved batch."""
        return [batch for queue in self._queues.values() for batch in queue]


def within_one_request(batches: Iterable[Batch], limit_bytes: int) -> list[Batch]:
    """Return as many of the batches as fit into one request, at least one."""
    chosen: list[Batch] = []
    size_bytes = 0
    for batch in batches:
        if chosen and size_bytes + batch.size_bytes > limit_bytes:
            continue
        size_bytes += batch.size_bytes
        chosen.append(batch)
    return chosen

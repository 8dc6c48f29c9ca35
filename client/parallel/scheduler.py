"""Schedules records of a parallel run: many at once, in order per key, none lost. Pure.

Records come in offset order per partition and go through lanes: one per key, one per partition, or
one each. Only the first record of a lane may be handled; a record that fails and is retried keeps
its lane.

A partition's position is the first offset that is not done, however many after it are. The records
between the position and the last one taken are the window. A crash may repeat the window, so
pausing the partition bounds it. The commit's metadata has the records that are done inside of it,
so that only those in progress are repeated.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from ottla.client.parallel.done_offsets import decode_done, encode_done
from ottla.client.records.committed import Committed
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition

Item = TypeVar("Item")
Ordering = Literal["key", "partition", "none"]
# A paused partition resumes when its window has shrunk by this factor.
RESUME_PART = 2


@dataclass(slots=True)
class Window:
    """One partition from its position on, for one assignment; a jump begins another window."""

    partition: TopicPartition
    # The group's position at the assignment, with what was done after it.
    start: Committed | None = None
    # Offsets in order; the first one is not done, unless all are.
    taken: deque[int] = field(default_factory=deque)
    done: set[int] = field(default_factory=set)
    # Done before this assignment, and not met yet.
    skips: frozenset[int] = frozenset()
    next_offset: int | None = None
    is_ours: bool = True
    told: Committed | None = None

    def accept(self, offset: int) -> bool:
        """Take the record; False if it was done before this assignment."""
        if self.next_offset is None and self.start is not None and offset < self.start.offset:
            # The application has gone back: it wants all records again.
            self.skips = frozenset()
        self.next_offset = offset + 1
        self.taken.append(offset)
        if offset not in self.skips:
            return True
        self.finish(offset)
        return False

    def finish(self, offset: int) -> None:
        """Mark the record as done."""
        self.done.add(offset)
        while self.taken and self.taken[0] in self.done:
            self.done.remove(self.taken.popleft())

    def committed(self) -> Committed | None:
        """Return the position and what is done after it; None if nothing was taken."""
        if self.next_offset is None:
            return None
        position = self.taken[0] if self.taken else self.next_offset
        # What was done before this assignment, beyond what was taken so far, is still done.
        ahead = (offset for offset in self.skips if offset >= self.next_offset)
        return Committed(position, metadata=encode_done(position, {*self.done, *ahead}))


@dataclass(slots=True, eq=False)
class QueuedRecord(Generic[Item]):
    """One record on its way through a lane. ``failures``: how often the handler failed on it."""

    item: Item
    offset: int
    window: Window
    lane: object
    failures: int = 0


class Lanes(Generic[Item]):
    """Owned by one parallel run. Every work that ``start`` returns ends in ``finish``, ``retry`` or
    ``drop``, also if its partition is gone meanwhile."""

    def __init__(self, ordering: Ordering, window_max: int) -> None:
        assert window_max > 0
        self._ordering = ordering
        self._window_max = window_max
        self._windows: dict[TopicPartition, Window] = {}
        # A lane has an entry while one of its works is ready, running or delayed.
        self._lanes: dict[object, deque[QueuedRecord[Item]]] = {}
        self._ready: deque[QueuedRecord[Item]] = deque()
        self._delayed: list[tuple[float, int, QueuedRecord[Item]]] = []
        self._delays = 0
        self._running: dict[QueuedRecord[Item], None] = {}
        self._paused: set[TopicPartition] = set()

    # Partitions.

    def assign(self, partition: TopicPartition, committed: Committed | None) -> None:
        """Take over the partition, at the group's position if there is one."""
        window = Window(partition, committed)
        if committed is not None:
            window.skips = decode_done(committed.offset, committed.metadata)
        self._windows[partition] = window
        self._paused.discard(partition)

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin no more records of these. Running ones continue: see ``running``."""
        for partition in partitions:
            window = self._windows.get(partition)
            if window is not None:
                window.is_ours = False
        self._discard()

    def _discard(self) -> None:
        """Drop records of given-up windows that have not begun."""
        gone = [work for work in self._ready if not work.window.is_ours]
        gone += [work for _, _, work in self._delayed if not work.window.is_ours]
        self._ready = deque(work for work in self._ready if work.window.is_ours)
        # A sorted list is a heap.
        self._delayed = sorted(entry for entry in self._delayed if entry[2].window.is_ours)
        for work in gone:
            self._leave(work)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop these partitions; results of records still running are ignored."""
        for partition in partitions:
            window = self._windows.pop(partition, None)
            if window is not None:
                window.is_ours = False
            self._paused.discard(partition)

    def running(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> list[QueuedRecord[Item]]:
        """Return the records that are being handled, of some partitions or of all."""
        if partitions is None:
            return list(self._running)
        wanted = set(partitions)
        return [work for work in self._running if work.window.partition in wanted]

    # Records.

    def take(self, partition: TopicPartition, offset: int, key: object, item: Item) -> None:
        """Queue a record. ``key`` None has no order with ordering "key"."""
        window = self._windows.get(partition)
        if window is None:
            window = self._windows[partition] = Window(partition)
        elif window.next_offset is not None and offset < window.next_offset:
            # The application has gone back to an earlier offset: all from there on is handled
            # again.
            was_ours, window.is_ours = window.is_ours, False
            self._discard()
            window = self._windows[partition] = Window(partition, is_ours=was_ours)
        if not window.is_ours:
            return
        if not window.accept(offset):
            return
        work = QueuedRecord(item, offset, window, self._lane_of(partition, key))
        if work.lane is None:
            self._ready.append(work)
        elif work.lane in self._lanes:
            self._lanes[work.lane].append(work)
        else:
            self._lanes[work.lane] = deque()
            self._ready.append(work)

    def _lane_of(self, partition: TopicPartition, key: object) -> object:
        if self._ordering == "partition":
            return partition
        if self._ordering == "none" or key is None:
            return None
        return (partition, key)

    def start(self, now_ms: float) -> QueuedRecord[Item] | None:
        """Return the next record to handle, if one may begin."""
        if self._delayed and self._delayed[0][0] <= now_ms:
            work = heappop(self._delayed)[2]
        elif self._ready:
            work = self._ready.popleft()
        else:
            return None
        self._running[work] = None
        return work

    def finish(self, work: QueuedRecord[Item]) -> None:
        """Mark the record as done, or to be counted as done."""
        del self._running[work]
        work.window.finish(work.offset)
        self._leave(work)

    def retry(self, work: QueuedRecord[Item], at_ms: float) -> None:
        """Queue the failed record for another attempt at that time; its lane waits."""
        del self._running[work]
        work.failures += 1
        if not work.window.is_ours:
            self._leave(work)
            return
        self._delays += 1
        heappush(self._delayed, (at_ms, self._delays, work))

    def drop(self, work: QueuedRecord[Item]) -> None:
        """End a record that is not done: the position stays before it."""
        del self._running[work]
        self._leave(work)

    def _leave(self, work: QueuedRecord[Item]) -> None:
        """Let the next record of the lane begin."""
        lane = self._lanes.get(work.lane)
        if lane is None:
            return
        while lane:
            following = lane.popleft()
            if following.window.is_ours:
                self._ready.append(following)
                return
        del self._lanes[work.lane]

    # For the run and its workers.

    @property
    def next_ms(self) -> float | None:
        """When the next delayed record may be retried."""
        return self._delayed[0][0] if self._delayed else None

    @property
    def ready_count(self) -> int:
        """How many records may begin at once."""
        return len(self._ready)

    def has_room(self, work: QueuedRecord[Item]) -> bool:
        """Return whether the record's partition is paused and may resume."""
        window = work.window
        return (
            window.partition in self._paused
            and len(window.taken) <= self._window_max // RESUME_PART
        )

    def to_commit(self) -> dict[TopicPartition, Committed]:
        """Return the positions that have changed since the last call, to be stored."""
        found = {}
        for partition, window in self._windows.items():
            position = window.committed()
            if position is not None and position != window.told:
                found[partition] = window.told = position
        return found

    def uncommit(self, partitions: Iterable[TopicPartition]) -> None:
        """Return these positions again next time: storing them has failed."""
        for partition in partitions:
            window = self._windows.get(partition)
            if window is not None:
                window.told = None

    def positions(self) -> dict[TopicPartition, int]:
        """Return the first offset of each partition that is not done, if any was taken."""
        return {
            partition: position.offset
            for partition, window in self._windows.items()
            if (position := window.committed()) is not None
        }

    def turn_taps(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return the partitions to pause, whose windows are full, and those to resume."""
        full, free = [], []
        for partition, window in self._windows.items():
            size = len(window.taken)
            if partition in self._paused:
                if size <= self._window_max // RESUME_PART:
                    free.append(partition)
            elif size >= self._window_max:
                full.append(partition)
        self._paused.update(full)
        self._paused.difference_update(free)
        return full, free

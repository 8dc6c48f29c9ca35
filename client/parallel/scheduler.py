"""Many records in work at once, and still each key in order and no position too far. Pure.

Records come in offset order per partition and go through lanes: one per key, one per partition, or
one each. Only the first of a lane may be in work; whoever fails and is tried again keeps its lane.

A partition's position is the first offset that is not done, however much after it is. What is
between the position and the last record taken is the window: it is bounded by pausing the
partition, for it is what a crash may repeat. What is done inside of it goes into the commit's
metadata, so that in fact only what was in work is repeated.
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
# A partition goes on when its window is this much smaller than where it was paused.
RESUME_PART = 2


@dataclass(slots=True)
class Window:
    """One partition from its position on, for one stay with us; a jump begins another."""

    partition: TopicPartition
    # Where a group stood and what was done after that when the partition came to us.
    start: Committed | None = None
    # Offsets in order; the first one is not done, unless all are.
    taken: deque[int] = field(default_factory=deque)
    done: set[int] = field(default_factory=set)
    # Done by an earlier life, and not met yet.
    skips: frozenset[int] = frozenset()
    next_offset: int | None = None
    is_ours: bool = True
    told: Committed | None = None

    def accept(self, offset: int) -> bool:
        """Take the record in; False if it was done in an earlier life."""
        if self.next_offset is None and self.start is not None and offset < self.start.offset:
            # The application has gone back: it wants to see all of it again.
            self.skips = frozenset()
        self.next_offset = offset + 1
        self.taken.append(offset)
        if offset not in self.skips:
            return True
        self.finish(offset)
        return False

    def finish(self, offset: int) -> None:
        """The record is done."""
        self.done.add(offset)
        while self.taken and self.taken[0] in self.done:
            self.done.remove(self.taken.popleft())

    def committed(self) -> Committed | None:
        """What to store: the position, and what is done after it. None if nothing was taken."""
        if self.next_offset is None:
            return None
        position = self.taken[0] if self.taken else self.next_offset
        # What an earlier life has done beyond what was taken yet stays true.
        ahead = (offset for offset in self.skips if offset >= self.next_offset)
        return Committed(position, metadata=encode_done(position, {*self.done, *ahead}))


@dataclass(slots=True, eq=False)
class QueuedRecord(Generic[Item]):
    """One record on its way through a lane. ``failures``: how often it was tried in vain."""

    item: Item
    offset: int
    window: Window
    lane: object
    failures: int = 0


class Lanes(Generic[Item]):
    """Owned by one parallel run. Every work that ``start`` returns ends in ``finish``, ``retry`` or
    ``drop``, also when its partition is gone meanwhile."""

    def __init__(self, ordering: Ordering, window_max: int) -> None:
        assert window_max > 0
        self._ordering = ordering
        self._window_max = window_max
        self._windows: dict[TopicPartition, Window] = {}
        # The key is there while a work of the lane is ready, running or delayed.
        self._lanes: dict[object, deque[QueuedRecord[Item]]] = {}
        self._ready: deque[QueuedRecord[Item]] = deque()
        self._delayed: list[tuple[float, int, QueuedRecord[Item]]] = []
        self._delays = 0
        self._running: dict[QueuedRecord[Item], None] = {}
        self._paused: set[TopicPartition] = set()

    # Partitions.

    def assign(self, partition: TopicPartition, committed: Committed | None) -> None:
        """The partition is ours, and begins where the group stands, if it stands anywhere."""
        window = Window(partition, committed)
        if committed is not None:
            window.skips = decode_done(committed.offset, committed.metadata)
        self._windows[partition] = window
        self._paused.discard(partition)

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin nothing more of these. What runs is let run: see ``running``."""
        for partition in partitions:
            window = self._windows.get(partition)
            if window is not None:
                window.is_ours = False
        self._discard()

    def _discard(self) -> None:
        """Take out what has not begun of windows that are not ours."""
        gone = [work for work in self._ready if not work.window.is_ours]
        gone += [work for _, _, work in self._delayed if not work.window.is_ours]
        self._ready = deque(work for work in self._ready if work.window.is_ours)
        # A sorted list is a heap.
        self._delayed = sorted(entry for entry in self._delayed if entry[2].window.is_ours)
        for work in gone:
            self._leave(work)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more: what is done of them from now on is of no account."""
        for partition in partitions:
            window = self._windows.pop(partition, None)
            if window is not None:
                window.is_ours = False
            self._paused.discard(partition)

    def running(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> list[QueuedRecord[Item]]:
        """What is in work now, of some partitions or at all."""
        if partitions is None:
            return list(self._running)
        wanted = set(partitions)
        return [work for work in self._running if work.window.partition in wanted]

    # Records.

    def take(self, partition: TopicPartition, offset: int, key: object, item: Item) -> None:
        """A record has come. ``key`` None stands in no order with ordering "key"."""
        window = self._windows.get(partition)
        if window is None:
            window = self._windows[partition] = Window(partition)
        elif window.next_offset is not None and offset < window.next_offset:
            # Somebody has gone back to an earlier offset: from there on it is all to be done again.
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
        """The next record to work on, if there is one that may begin."""
        if self._delayed and self._delayed[0][0] <= now_ms:
            work = heappop(self._delayed)[2]
        elif self._ready:
            work = self._ready.popleft()
        else:
            return None
        self._running[work] = None
        return work

    def finish(self, work: QueuedRecord[Item]) -> None:
        """It is done, or shall count as done."""
        del self._running[work]
        work.window.finish(work.offset)
        self._leave(work)

    def retry(self, work: QueuedRecord[Item], at_ms: float) -> None:
        """It has failed and is tried again then; its lane waits."""
        del self._running[work]
        work.failures += 1
        if not work.window.is_ours:
            self._leave(work)
            return
        self._delays += 1
        heappush(self._delayed, (at_ms, self._delays, work))

    def drop(self, work: QueuedRecord[Item]) -> None:
        """It was ended before it was done: the position stays before it."""
        del self._running[work]
        self._leave(work)

    def _leave(self, work: QueuedRecord[Item]) -> None:
        """Let the next one of the lane begin."""
        lane = self._lanes.get(work.lane)
        if lane is None:
            return
        while lane:
            following = lane.popleft()
            if following.window.is_ours:
                self._ready.append(following)
                return
        del self._lanes[work.lane]

    # What the shell does about it.

    @property
    def next_ms(self) -> float | None:
        """When the next delayed record may be tried again."""
        return self._delayed[0][0] if self._delayed else None

    @property
    def ready_count(self) -> int:
        """How many may begin at once."""
        return len(self._ready)

    def has_room(self, work: QueuedRecord[Item]) -> bool:
        """Whether the work's partition is paused and need not be any more."""
        window = work.window
        return (
            window.partition in self._paused
            and len(window.taken) <= self._window_max // RESUME_PART
        )

    def to_commit(self) -> dict[TopicPartition, Committed]:
        """What has changed since the last time, to be stored."""
        found = {}
        for partition, window in self._windows.items():
            position = window.committed()
            if position is not None and position != window.told:
                found[partition] = window.told = position
        return found

    def uncommit(self, partitions: Iterable[TopicPartition]) -> None:
        """Storing these has failed: they are told once more."""
        for partition in partitions:
            window = self._windows.get(partition)
            if window is not None:
                window.told = None

    def positions(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that is not done; of those of which any was taken."""
        return {
            partition: position.offset
            for partition, window in self._windows.items()
            if (position := window.committed()) is not None
        }

    def turn_taps(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Which partitions to pause now, since their windows are full, and which to resume."""
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

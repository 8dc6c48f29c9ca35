"""Tracks the records that the application was given, and which of them it has finished. Pure.

An application that polls has finished everything it was given when it polls again; one that
iterates has finished a record when it asks for the next. Positions are not enough: they are past
all records that have left the buffer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class ReturnedRecord(Protocol):
    """The part of a record that matters here."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


Record = TypeVar("Record", bound=ReturnedRecord)


class Iteration(Generic[Record]):
    """Records that are handed out one by one.

    A blocking program takes them in its own thread, and the event loop's thread may interrupt that.
    So there is one queue, and each record goes to the one thread that pops it."""

    __slots__ = ("_waiting", "records")

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self._waiting = deque(records)

    @property
    def count(self) -> int:
        """The number of records handed out."""
        return len(self.records) - len(self._waiting)

    def __iter__(self) -> Iterator[Record]:
        take = self._waiting.popleft
        while self._waiting:
            try:
                record = take()
            except IndexError:
                # The other thread has taken the last one.
                return
            yield record

    def end(self) -> int:
        """Hand out no more; return how many have been.

        Pops from the other end: a thread that takes at the same moment gets the next record, and
        none behind it."""
        left_count = 0
        while self._waiting:
            try:
                self._waiting.pop()
            except IndexError:
                break
            left_count += 1
        return len(self.records) - left_count

    def firsts(self, index: int) -> dict[TopicPartition, int]:
        """Return the offset of the first record from that index on, for each partition."""
        found: dict[TopicPartition, int] = {}
        for record in self.records[index:]:
            found.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return found


class ReturnedRecords:
    """Owned by one consumer."""

    __slots__ = ("_iteration", "_seen_count", "_settled", "_unfinished")

    def __init__(self) -> None:
        self._iteration: Iteration[Any] | None = None
        # The first offset of each partition that was handed out and may be unfinished.
        self._unfinished: dict[TopicPartition, int] = {}
        # The offsets that the application has committed itself.
        self._settled: dict[TopicPartition, int] = {}
        self._seen_count = 0

    def finish(self) -> None:
        """Record that the application asks for more, so it has finished what it was given."""
        self._end_iteration()
        self._unfinished.clear()
        self._settled.clear()

    def settle(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record that the application has finished everything before these offsets."""
        self._settled.update(offsets)

    def take(self, partition: TopicPartition, offset: int) -> None:
        """Record that the application is given records of the partition from this offset on."""
        self._unfinished.setdefault(partition, offset)

    def iterate(self, records: Sequence[Record]) -> Iteration[Record]:
        """Hand out these records, which were taken last, one by one."""
        self._end_iteration()
        self._unfinished.clear()
        iteration = self._iteration = Iteration(records)
        self._seen_count = 0
        return iteration

    def _end_iteration(self) -> None:
        iteration, self._iteration = self._iteration, None
        if iteration is not None:
            iteration.end()

    def interrupt(self) -> dict[TopicPartition, int]:
        """Stop the iteration; return the first offset of each partition that was not handed out."""
        iteration, self._iteration = self._iteration, None
        if iteration is None:
            return {}
        count = iteration.end()
        if count:
            # The application may still process the last one.
            last = iteration.records[count - 1]
            self._unfinished[TopicPartition(last.topic, last.partition)] = last.offset
        return iteration.firsts(count)

    def has_progressed(self) -> bool:
        """Return whether the iteration has handed out a record since the last call."""
        before = self._seen_count
        if self._iteration is not None:
            self._seen_count = self._iteration.count
        return self._iteration is not None and self._seen_count > before

    def waiting(self) -> dict[TopicPartition, int]:
        """Return the first offsets of records that left the buffer and were not handed out."""
        return {} if self._iteration is None else self._iteration.firsts(self._iteration.count)

    def unfinished(self) -> dict[TopicPartition, int]:
        """Return the first offsets that the application may not have finished."""
        iteration, found = self._iteration, self._unfinished
        if iteration is not None:
            found = iteration.firsts(max(0, iteration.count - 1))
        # An automatic commit must not move the application's own commit back.
        return {where: max(first, self._settled.get(where, 0)) for where, first in found.items()}

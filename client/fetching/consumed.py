"""What the application has been given, and what of it it has finished with. Pure.

It has finished with everything it was given when it asks for more; who iterates, with each record
when it asks for the next. Positions alone cannot tell: they are past whatever has left the buffer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class ReturnedRecord(Protocol):
    """A record, as far as it matters here."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


Record = TypeVar("Record", bound=ReturnedRecord)


class Iteration(Generic[Record]):
    """Records that are handed out one by one.

    A blocking program takes them in its own thread, and may be interrupted from the event loop's
    in the midst of it. So there is one queue, and whoever gets a record out of it has it."""

    __slots__ = ("_waiting", "records")

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self._waiting = deque(records)

    @property
    def count(self) -> int:
        """How many have been handed out."""
        return len(self.records) - len(self._waiting)

    def __iter__(self) -> Iterator[Record]:
        take = self._waiting.popleft
        while self._waiting:
            try:
                record = take()
            except IndexError:
                # Somebody else has taken the last one meanwhile.
                return
            yield record

    def end(self) -> int:
        """Hand out no more; return how many have been.

        From the other end, so that whoever takes at the same moment gets the next record and none
        behind it."""
        left_count = 0
        while self._waiting:
            try:
                self._waiting.pop()
            except IndexError:
                break
            left_count += 1
        return len(self.records) - left_count

    def firsts(self, index: int) -> dict[TopicPartition, int]:
        """For each partition the offset of its first record from that index on."""
        found: dict[TopicPartition, int] = {}
        for record in self.records[index:]:
            found.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return found


class ReturnedRecords:
    """Owned by one consumer."""

    __slots__ = ("_iteration", "_seen_count", "_settled", "_unfinished")

    def __init__(self) -> None:
        self._iteration: Iteration[Any] | None = None
        # Where what has been handed out, and may be in work, begins.
        self._unfinished: dict[TopicPartition, int] = {}
        # What the application has said itself, by a commit.
        self._settled: dict[TopicPartition, int] = {}
        self._seen_count = 0

    def finish(self) -> None:
        """The application asks for more."""
        self._end_iteration()
        self._unfinished.clear()
        self._settled.clear()

    def settle(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The application says that it has finished with all that it was given before these."""
        self._settled.update(offsets)

    def take(self, partition: TopicPartition, offset: int) -> None:
        """From this offset on it is given more of the partition."""
        self._unfinished.setdefault(partition, offset)

    def iterate(self, records: Sequence[Record]) -> Iteration[Record]:
        """What it was given last is handed out one by one."""
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
        """Hand out no more of what waits; the answer says where that begins."""
        iteration, self._iteration = self._iteration, None
        if iteration is None:
            return {}
        count = iteration.end()
        if count:
            # The last one is in work.
            last = iteration.records[count - 1]
            self._unfinished[TopicPartition(last.topic, last.partition)] = last.offset
        return iteration.firsts(count)

    def has_progressed(self) -> bool:
        """Whether a record has been handed out, by iteration, since this was asked last."""
        before = self._seen_count
        if self._iteration is not None:
            self._seen_count = self._iteration.count
        return self._iteration is not None and self._seen_count > before

    def waiting(self) -> dict[TopicPartition, int]:
        """Where what has left the buffer, and has not been handed out, begins."""
        return {} if self._iteration is None else self._iteration.firsts(self._iteration.count)

    def unfinished(self) -> dict[TopicPartition, int]:
        """Where what the application may not have finished with begins."""
        iteration, found = self._iteration, self._unfinished
        if iteration is not None:
            found = iteration.firsts(max(0, iteration.count - 1))
        # An automatic commit must not take back what the application has committed.
        return {where: max(first, self._settled.get(where, 0)) for where, first in found.items()}

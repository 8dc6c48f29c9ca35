"""What the application has been given, and what of it it has finished with. Pure.

It has finished with everything it was given when it asks for more; who iterates, with each record
when it asks for the next. Positions alone cannot tell: they are past whatever has left the buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence


class Placed(Protocol):
    """A record, as far as it matters here."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


class Iteration:
    """Records that are handed out one by one; ``count`` of them have been."""

    __slots__ = ("count", "records")

    def __init__(self, records: Sequence[Placed]) -> None:
        self.records = records
        self.count = 0

    def firsts(self, index: int) -> dict[TopicPartition, int]:
        """For each partition the offset of its first record from that index on."""
        found: dict[TopicPartition, int] = {}
        for record in self.records[index:]:
            found.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return found


class Handed:
    """Owned by one consumer."""

    __slots__ = ("_iteration", "_seen_count", "_unfinished")

    def __init__(self) -> None:
        self._iteration: Iteration | None = None
        # Where what has been handed out, and may be in work, begins.
        self._unfinished: dict[TopicPartition, int] = {}
        self._seen_count = 0

    def finish(self) -> None:
        """The application asks for more."""
        self._iteration = None
        self._unfinished.clear()

    def take(self, partition: TopicPartition, offset: int) -> None:
        """From this offset on it is given more of the partition."""
        self._unfinished.setdefault(partition, offset)

    def iterate(self, records: Sequence[Placed]) -> Iteration:
        """What it was given last is handed out one by one."""
        self._unfinished.clear()
        self._iteration = Iteration(records)
        self._seen_count = 0
        return self._iteration

    def is_current(self, iteration: Iteration) -> bool:
        """Whether the rest of it may still be handed out."""
        return self._iteration is iteration

    def interrupt(self) -> dict[TopicPartition, int]:
        """Hand out no more of what waits; the answer says where that begins."""
        iteration, self._iteration = self._iteration, None
        if iteration is None:
            return {}
        if iteration.count:
            # The last one is in work.
            last = iteration.records[iteration.count - 1]
            self._unfinished[TopicPartition(last.topic, last.partition)] = last.offset
        return iteration.firsts(iteration.count)

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
        if self._iteration is None:
            return dict(self._unfinished)
        return self._iteration.firsts(max(0, self._iteration.count - 1))

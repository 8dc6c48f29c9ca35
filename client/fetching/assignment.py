"""Which partitions a consumer reads, and where it is in each.

The half of the consumer that never waits: it changes positions, and the fetcher acts on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.records.arguments import partitions_of, whole
from ottla.client.settings.config import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.fetching.fetcher import Fetcher
    from ottla.protocol.ids import TopicPartition


class Assignment:
    """The part of ``Consumer`` that says what to read."""

    def __init__(self, fetcher: Fetcher, isolation: Isolation) -> None:
        self._fetcher = fetcher
        self._positions = fetcher.positions
        self._isolation = isolation

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these from now on; those assigned already keep their position.

        Without a ``seek`` a partition begins where ``offset_reset`` says."""
        self._assign(partitions, is_awaiting=False)

    def _assign(self, partitions: Iterable[TopicPartition], *, is_awaiting: bool) -> None:
        wanted = partitions_of(partitions, is_each_once=True)
        self._positions.assign(wanted, is_awaiting=is_awaiting)
        self._has_moved()

    def _leave_behind(self, partitions: Iterable[TopicPartition]) -> None:
        """The application does not want what is still to be handed out of these."""

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return self._positions.partitions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at that offset. Raises ValueError for a partition that is not assigned."""
        self._check_assigned([partition])
        offset = whole("an offset", offset)
        self._leave_behind([partition])
        self._positions.seek(partition, offset)
        self._has_moved()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record there is; all assigned partitions if none is named."""
        self.seek_to_time(EARLIEST_TIMESTAMP, *partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record there is when this takes effect."""
        self.seek_to_time(LATEST_TIMESTAMP, *partitions)

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition) -> None:
        """Continue at the first record with that timestamp (ms since 1970) or a later one; at the
        end if there is none."""
        self._check_assigned(partitions)
        timestamp = whole("a time in milliseconds", timestamp, EARLIEST_TIMESTAMP)
        wanted = partitions or self.assignment
        self._leave_behind(wanted)
        for partition in wanted:
            self._positions.seek_timestamp(partition, timestamp)
        self._has_moved()

    def pause(self, *partitions: TopicPartition) -> None:
        """Do not return records of these until ``resume``; nothing is lost."""
        self._check_assigned(partitions)
        self._leave_behind(partitions)
        for partition in partitions:
            self._positions[partition].is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return their records again."""
        self._check_assigned(partitions)
        for partition in partitions:
            self._positions[partition].is_paused = False
        self._fetcher.arrived.set()
        self._fetcher.wake()

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to be returned; None while it is being looked up."""
        self._check_assigned([partition])
        return self._positions[partition].offset

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets are between the position and the end, as last heard of."""
        self._check_assigned([partition])
        place, end = self._positions[partition], self._end(partition)
        return None if place.offset is None or end < 0 else max(0, end - place.offset)

    def is_dry_before(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the log goes on to that offset, but has no record before it any more that the
        position has not passed: compaction has removed them."""
        self._check_assigned([partition])
        end = self._end(partition)
        return end >= offset and self._positions[partition].is_dry

    def _end(self, partition: TopicPartition) -> int:
        is_committed = self._isolation is Isolation.READ_COMMITTED
        return self._positions[partition].end(is_committed=is_committed)

    def _check_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if not isinstance(partition, tuple):
                raise TypeError(f"a partition is a topic and a number, not {partition!r}")
            if self._positions.get(partition) is None:
                raise ValueError(f"{partition} is not assigned")

    def _has_moved(self) -> None:
        self._fetcher.drop_stale_chunks()
        self._fetcher.wake()

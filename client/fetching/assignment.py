"""Assigns partitions to a consumer and changes its positions.

Nothing here waits: the calls change positions, and the fetcher acts on them.
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


class AssignmentCalls:
    """The part of ``Consumer`` that says what to read."""

    def __init__(self, fetcher: Fetcher, isolation: Isolation) -> None:
        self._fetcher = fetcher
        self._positions = fetcher.positions
        self._isolation = isolation

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; partitions that are assigned already keep their
        position.

        Without a ``seek`` a partition begins where ``offset_reset`` says.

        Args:
            partitions: All partitions to read; none to stop.
        """
        self._assign(partitions, is_awaiting=False)

    def _assign(self, partitions: Iterable[TopicPartition], *, is_awaiting: bool) -> None:
        wanted = partitions_of(partitions, is_each_once=True)
        self._positions.assign(wanted, is_awaiting=is_awaiting)
        self._has_moved()

    def _leave_behind(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop records of these partitions that are still to be returned."""

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return self._positions.partitions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset.

        Args:
            partition: An assigned partition.
            offset: The offset of the next record to read.

        Raises:
            ValueError: The partition is not assigned.
        """
        self._check_assigned([partition])
        offset = whole("an offset", offset)
        self._leave_behind([partition])
        self._positions.seek(partition, offset)
        self._has_moved()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record of the log.

        Args:
            partitions: Assigned partitions; all of them if none is given.

        Raises:
            ValueError: A partition is not assigned.
        """
        self.seek_to_time(EARLIEST_TIMESTAMP, *partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record, as of the time when the broker is asked.

        Args:
            partitions: Assigned partitions; all of them if none is given.

        Raises:
            ValueError: A partition is not assigned.
        """
        self.seek_to_time(LATEST_TIMESTAMP, *partitions)

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition) -> None:
        """Continue at the first record at or after a time, or at the end if there is none.

        Args:
            timestamp: The time, in milliseconds since 1970.
            partitions: Assigned partitions; all of them if none is given.

        Raises:
            ValueError: A partition is not assigned.
        """
        self._check_assigned(partitions)
        timestamp = whole("a time in milliseconds", timestamp, EARLIEST_TIMESTAMP)
        wanted = partitions or self.assignment
        self._leave_behind(wanted)
        for partition in wanted:
            self._positions.seek_timestamp(partition, timestamp)
        self._has_moved()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until ``resume``. No record is lost.

        Args:
            partitions: Assigned partitions.

        Raises:
            ValueError: A partition is not assigned.
        """
        self._check_assigned(partitions)
        self._leave_behind(partitions)
        for partition in partitions:
            self._positions[partition].is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of paused partitions again.

        Args:
            partitions: Assigned partitions.

        Raises:
            ValueError: A partition is not assigned.
        """
        self._check_assigned(partitions)
        for partition in partitions:
            self._positions[partition].is_paused = False
        self._fetcher.arrived.set()
        self._fetcher.wake()

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record that a poll returns; None while it is looked up.

        Args:
            partition: An assigned partition.

        Raises:
            ValueError: The partition is not assigned.
        """
        self._check_assigned([partition])
        return self._positions[partition].offset

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end of the partition.

        Args:
            partition: An assigned partition.

        Returns:
            The lag as of the last fetch response; None while it is unknown.

        Raises:
            ValueError: The partition is not assigned.
        """
        self._check_assigned([partition])
        position, end = self._positions[partition], self._end(partition)
        return None if position.offset is None or end < 0 else max(0, end - position.offset)

    def is_dry_before(self, partition: TopicPartition, offset: int) -> bool:
        """Check whether no records are left between the position and an offset.

        Compaction can remove the records before an offset that the log has reached.

        Args:
            partition: An assigned partition.
            offset: The offset to reach.

        Returns:
            True if the log reaches ``offset`` and has no unread record before it.

        Raises:
            ValueError: The partition is not assigned.
        """
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
        self._fetcher.drop_stale_fetches()
        self._fetcher.wake()

"""Looks again and again how far the partitions have come that this broker leads.

Loaded with ``ottla.trace.interval.ms`` only. A look costs about a microsecond for each partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.housekeeping.progress_marks import LeaderProgress, ProgressMarks

if TYPE_CHECKING:
    from ottla.broker.partitions.partitions import Partitions
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock


class ProgressWatch:
    """Owned by the server."""

    def __init__(self, node_id: int, partitions: Partitions, clock: Clock) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._clock = clock
        self._marks = ProgressMarks(node_id)
        self._looked_ms = 0

    async def run(self, interval_ms: float) -> None:
        """Look for ever."""
        while True:
            self.look()
            await self._clock.sleep(interval_ms)

    def look(self) -> None:
        """Look once at every partition that is led here."""
        times = self._looked_ms, self._clock.wall_ms()
        for one in self._partitions:
            leading = one.replica.leading
            if leading is None:
                continue
            ends = {node: follower.log_end_offset for node, follower in leading.followers.items()}
            ends[self._node_id] = one.replica.log_end_offset
            progress = LeaderProgress(one.replica.leader_epoch, one.replica.high_watermark, ends)
            self._marks.note(one.partition, progress, times)
        self._looked_ms = times[1]

    def of(self, where: TopicPartition, offset: int) -> dict[str, object] | None:
        """What is remembered of a record; None if nothing is of its partition."""
        return self._marks.of(where, offset)

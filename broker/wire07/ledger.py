"""Finds records by their positions, and positions of records, in the logs led here.

An anchor is stored before a position is told that needs it: at the log's start, where a segment
begins, and every 64 MiB. So another leader, a restart or retention changes no position: retention
moves the log's start to the beginning of a segment. Records that an administrator has deleted up to
the middle of a segment are still in its file, and are counted there. If nothing at all is left of
what had been read, positions go on beyond all that were told (``beyond_all_told``).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from ottla.broker.log.storage.scan import BatchPosition
from ottla.broker.log.storage.settings import INT64_MAX
from ottla.broker.log.storage.slices import LogRead, slice_batch, slice_segment
from ottla.broker.wire07.positions import (
    IN_MEMORY_MAX,
    MEMORY_STEP_BYTES,
    STORE_STEP_BYTES,
    Anchor,
    Anchors,
    beyond_all_told,
)
from ottla.broker.wire07.stored import AnchorNode
from ottla.broker.wire07.walk import Goal, Walk
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.log.storage.segment import Segment
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import FileRegion, Offload

# Stored bytes that one walk passes; other requests get their turn in between.
_REGION_BYTES = 1024 * 1024
# Of one request. A client of 0.7 waits for half a minute, and what was counted is kept: its next
# request goes on from there.
_REGIONS_MAX = 512
# Where consumers have got to is found at once.
_RECENT_MAX = 128
# A znode holds a megabyte.
_STORED_MAX = 16_384
_PARTITIONS_MAX = 1_000


class PartitionLedger:
    """The positions of one partition, for as long as this broker leads it in one leader epoch."""

    def __init__(
        self, partition: PartitionRuntime, session: Callable[[], MetadataSession], offload: Offload
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self._offload = offload
        self._node = AnchorNode(session, str(partition.log.partition), partition.log.topic_id)
        self._version: int | None = None
        self._anchors = Anchors()
        self._stored = Anchors()
        # Positions where answers ended, with their offsets; the last used is last.
        self._recent: OrderedDict[int, int] = OrderedDict()
        self._lock = asyncio.Lock()

    async def at_position(self, position: int) -> Anchor:
        """The record that begins there, or the log's end.

        Raises KafkaError: OFFSET_OUT_OF_RANGE where no record begins, and what reading raises."""
        async with self._lock:
            await self._prepare()
            near = self._anchors.before_position(position)
            start = self.partition.log_start_offset
            offset = self._recent.get(position, -1)
            if offset >= start:
                return Anchor(offset, position)
            found = None
            if near is not None and near.offset >= start:
                found = await self._walk(near, Goal(position=position))
            if found is None or found.position != position:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"no record of {self.partition.log.partition} begins at position {position}",
                )
            self._remember(found)
            return found

    async def position_of(self, offset: int) -> int:
        """Where the record at this offset begins. Raises as ``at_position``."""
        async with self._lock:
            await self._prepare()
            near = self._anchors.before_offset(offset)
            if near is None:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "the record has been deleted")
            return (await self._walk(near, Goal(offset=offset))).position

    async def tell(self, at: Anchor) -> None:
        """A consumer is about to be told this position. Raises KafkaError."""
        async with self._lock:
            await self._keep(at)
            self._remember(at)

    def _remember(self, at: Anchor) -> None:
        self._recent[at.position] = at.offset
        self._recent.move_to_end(at.position)
        if len(self._recent) > _RECENT_MAX:
            self._recent.popitem(last=False)

    async def _prepare(self) -> None:
        """Know the position of the log's start."""
        if self._version is None:
            anchors, self._version = await self._node.load()
            self._stored, self._anchors = Anchors(anchors), Anchors(anchors)
        start, end = self.partition.log_start_offset, self._end()
        self._anchors.forget_behind(end)
        after = self._anchors.from_offset(start)
        if after is None:
            after = self._recent_from(start, end)
        elif after.offset == start:
            near, log = self._stored.before_offset(start), self.partition.log
            segment = log.segments[log.segment_number(start)]
            if near is None or near.offset < segment.base_offset:
                # The stored ones go with their files, and this one is in memory alone.
                await self._store(after)
            return
        last = self._stored.last
        anchor = await self._count_deleted(start)
        if anchor is not None:
            self._anchors.forget_before(start)
            self._stored.forget_before(start)
        elif after is not None:
            passed = await self._region_walk(Anchor(start, 0), Goal(offset=after.offset))
            anchor = Anchor(start, after.position - passed.position)
            self._anchors.forget_before(start)
            self._stored.forget_before(start)
        else:
            # Without an anchor no position has been told yet.
            anchor = Anchor(start, 0) if last is None else beyond_all_told(last, start)
            self._anchors, self._stored = Anchors(), Anchors()
        await self._store(anchor)

    async def _count_deleted(self, start: int) -> Anchor | None:
        """The position of the log's start, by the records before it that are still in files."""
        log = self.partition.log
        at = self._stored.before_offset(start)
        while at is not None and at.offset < start:
            if at.offset < log.segments[0].base_offset:
                return None
            number = log.segment_number(at.offset)
            region = self._in_file(log.segments[number], at.offset)
            if region is not None:
                at = await self._pass(region, at, Goal(offset=start))
            elif number + 1 < len(log.segments):
                at = Anchor(min(start, log.segments[number + 1].base_offset), at.position)
            else:
                at = Anchor(start, at.position)
        return at

    def _in_file(self, segment: Segment, offset: int) -> FileRegion | None:
        try:
            found = slice_segment(segment, offset, _REGION_BYTES, INT64_MAX)
            if type(found) is BatchPosition:
                found = slice_batch(segment, found)
        except (OSError, CorruptLogError) as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return found.region if isinstance(found, LogRead) else None

    def _recent_from(self, start: int, end: int) -> Anchor | None:
        """Where a consumer has got to, if that is still there."""
        found = [Anchor(one, position) for position, one in self._recent.items()]
        return min((one for one in found if start <= one.offset <= end), default=None)

    def _end(self) -> int:
        return self.partition.latest_offset(read_committed=False, follower=False)

    async def _walk(self, at: Anchor, goal: Goal) -> Anchor:
        """Read on from an anchor to the goal or the end, and keep what was learned."""
        end, left = self._end(), _REGIONS_MAX
        while at.offset < min(end, goal.offset) and at.position < goal.position:
            if not left:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"positions of {self.partition.log.partition} have been counted up to offset "
                    f"{at.offset}; the next request goes on from there",
                )
            left -= 1
            at = await self._one_region(at, goal, end)
            self._anchors.add(at, MEMORY_STEP_BYTES)
            self._anchors.thin_out(IN_MEMORY_MAX)
            await self._keep(at)
        return at

    async def _region_walk(self, at: Anchor, goal: Goal) -> Anchor:
        end = self._end()
        while at.offset < min(end, goal.offset):
            at = await self._one_region(at, goal, end)
        return at

    async def _one_region(self, at: Anchor, goal: Goal, end: int) -> Anchor:
        found = self.partition.log.read(at.offset, _REGION_BYTES, end, True)
        region = found.region
        if region is None:
            return Anchor(end, at.position)
        return await self._pass(region, at, goal)

    async def _pass(self, region: FileRegion, at: Anchor, goal: Goal) -> Anchor:
        """Count the records of a region; where that ended."""
        file, start = region.file, region.position
        walk = Walk(
            lambda position, count: file.pread(count, start + position), region.size_bytes, at, goal
        )
        try:
            while await self._offload.run(walk.step):
                pass
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return walk.at

    async def _keep(self, at: Anchor) -> None:
        """Store an anchor if one is due there."""
        near = self._stored.before_offset(at.offset)
        if near is None or near.offset == at.offset:
            return
        if at.position - near.position < STORE_STEP_BYTES:
            views = self.partition.log.segment_views()
            if all(view.base_offset != at.offset for view in views):
                return
        await self._store(at)

    async def _store(self, anchor: Anchor) -> None:
        assert self._version is not None
        self._stored.add(anchor)
        self._anchors.add(anchor)
        self._stored.thin_out(_STORED_MAX)
        try:
            self._version = await self._node.save(self._stored, self._version)
        except BaseException:
            # Whether it was stored is unknown: look again.
            self._version = None
            raise


class Ledgers:
    """The positions of all partitions that clients of 0.7 use here."""

    def __init__(self, session: Callable[[], MetadataSession], offload: Offload) -> None:
        self._session = session
        self._offload = offload
        self._ledgers: OrderedDict[TopicPartition, PartitionLedger] = OrderedDict()

    def of(self, partition: PartitionRuntime) -> PartitionLedger:
        """The positions of a partition that is led here."""
        key = partition.log.partition
        found = self._ledgers.get(key)
        if (
            found is None
            or found.partition is not partition
            or found.leader_epoch != partition.leader_epoch
        ):
            # Another leader may have stored anchors meanwhile.
            found = PartitionLedger(partition, self._session, self._offload)
            self._ledgers[key] = found
        self._ledgers.move_to_end(key)
        if len(self._ledgers) > _PARTITIONS_MAX:
            self._ledgers.popitem(last=False)
        return found

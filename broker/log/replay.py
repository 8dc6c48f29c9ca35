"""Feeds a log's observer: the newest usable snapshot first, then the batches after it.

A snapshot lists the open transactions, not the ends of the others. A snapshot above the high
watermark may include ends that are not replicated: their records would be shown at once, and the
next leader may not have the markers (hazard T-17). So the batch headers between the high watermark
and the snapshot, usually few, are searched for markers. If there is one, an older snapshot is
loaded and the markers are replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.checkpoints import read_file
from ottla.broker.log.storage.scan import CHUNK_BYTES, BatchScan, walk
from ottla.broker.log.storage.slices import locate
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    MAGIC,
    MAGIC_POSITION,
)

if TYPE_CHECKING:
    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.storage.segment import Segment
    from ottla.protocol.ports import File


def load_newest_snapshot(log: OpenLog, limit_offset: int) -> int:
    """Load the newest snapshot at or before an offset; returns the offset to replay from.

    Without a usable one that is the first batch of the log. Batches below the log start count, too:
    a producer may still repeat a deleted batch (T-06). Corrupt snapshots are skipped. Raises
    OSError."""
    first_offset = log.segments[0].base_offset
    for offset in reversed(log.snapshot_offsets):
        if first_offset <= offset <= limit_offset:
            content = read_file(log.home.disk, log.snapshot_path(offset))
            if content is not None and log.observer.load_snapshot(content):
                return offset
    log.observer.reset()
    return first_offset


_ATTRIBUTES_END = ATTRIBUTES_POSITION + 2


class SegmentRange(NamedTuple):
    """Part of a segment's file from a batch's start to ``end``, up to ``end_offset``."""

    file: File
    start: int
    end: int
    end_offset: int


def unsettled_parts(log: OpenLog, settled_offset: int, snapshot_offset: int) -> list[SegmentRange]:
    """Parts whose markers are in the observer's snapshot but not settled; usually none.

    Raises OSError, CorruptLogError."""
    parts: list[SegmentRange] = []
    if settled_offset >= snapshot_offset or not log.observer.has_seen_markers:
        return parts
    for segment in log.segments[log.segment_number(settled_offset) :]:
        if segment.base_offset >= snapshot_offset:
            break
        place = locate(segment, settled_offset) if segment.size_bytes else None
        if place is not None:
            parts.append(
                SegmentRange(segment.file, place.position, segment.size_bytes, snapshot_offset)
            )
    return parts


def holds_marker(parts: list[SegmentRange]) -> bool:
    """Whether there is a control batch. Runs in a worker. Raises OSError, CorruptLogError."""
    for file, start, end, end_offset in parts:
        for place in walk(file, start, end):
            if place.base_offset >= end_offset:
                break
            head = file.pread(_ATTRIBUTES_END - MAGIC_POSITION, place.position + MAGIC_POSITION)
            if head[0] == MAGIC and int.from_bytes(head[-2:]) & CONTROL_BIT:
                return True
    return False


async def rebuild_observer(log: OpenLog) -> None:
    """Rebuild the observer's producers from the present log.

    Raises OSError, CorruptLogError."""
    settled_offset = log.observer.settled_offset
    offset = load_newest_snapshot(log, log.log_end_offset)
    parts = unsettled_parts(log, settled_offset, offset)
    if await log.home.offload.run(holds_marker, parts):
        offset = load_newest_snapshot(log, settled_offset)
    for segment in log.segments[log.segment_number(offset) :]:
        place = locate(segment, offset) if segment.size_bytes else None
        if place is not None:
            await _replay_alive(log, segment, place.position)


async def _replay_alive(log: OpenLog, segment: Segment, start: int) -> None:
    """As ``replay_segment``, but on the event loop, since other tasks use the observer.

    A worker reads chunks ahead, which also yields to other tasks."""
    file = segment.file
    scan = BatchScan(file, start, segment.size_bytes)
    read_ahead = start
    for position, batch in scan:
        if position >= read_ahead:
            read_ahead = position + CHUNK_BYTES
            await log.home.offload.run(file.pread, CHUNK_BYTES, read_ahead)
        log.observer.observe(batch)
    if scan.problem is not None:
        raise CorruptLogError(f"{segment.path} at position {scan.position}: {scan.problem}")


def replay_segment(
    log: OpenLog, segment: Segment, start: int, end: int | None = None, *, from_offset: int = 0
) -> None:
    """Feed the observer a segment's batches from a position on, without verifying them again.

    Abort markers are not added to the index again. Raises OSError, CorruptLogError."""
    scan = BatchScan(segment.file, start, segment.size_bytes if end is None else end)
    for _, batch in scan:
        if batch.last_offset >= from_offset:
            log.observer.observe(batch)
    if scan.problem is not None:
        raise CorruptLogError(f"{segment.path} at position {scan.position}: {scan.problem}")

"""Feeding a log's observer: the newest usable snapshot first, then the batches after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.checkpoints import read_file
from ottla.broker.log.scan import CHUNK_BYTES, BatchScan
from ottla.broker.log.slices import locate
from ottla.protocol.errors import CorruptLogError

if TYPE_CHECKING:
    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.segment import Segment


def load_newest_snapshot(log: OpenLog, limit_offset: int) -> int:
    """Give the observer its newest snapshot at or before an offset; where to go on from.

    Without a usable one that is the first batch there is. What lies below the log start counts
    too: a producer may still repeat a batch that was deleted (T-06). Spoiled snapshots are passed
    over. Raises OSError."""
    first_offset = log.segments[0].base_offset
    for offset in reversed(log.snapshot_offsets):
        if first_offset <= offset <= limit_offset:
            content = read_file(log.home.disk, log.snapshot_path(offset))
            if content is not None and log.observer.load_snapshot(content):
                return offset
    log.observer.reset()
    return first_offset


async def rebuild_observer(log: OpenLog) -> None:
    """Let the observer forget its producers and learn them again from the log as it is now.

    Raises OSError, CorruptLogError."""
    offset = load_newest_snapshot(log, log.log_end_offset)
    for segment in log.segments[log.segment_number(offset) :]:
        place = locate(segment, offset) if segment.size_bytes else None
        if place is not None:
            await _replay_alive(log, segment, place.position)


async def _replay_alive(log: OpenLog, segment: Segment, start: int) -> None:
    """As ``replay_segment``, on the loop, since others read the observer meanwhile.

    Chunks are read ahead elsewhere, which also lets others run in between."""
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
    """Show the observer a segment's batches from a position on, without checking them again.

    Abort markers are not noted a second time. Raises OSError, CorruptLogError."""
    scan = BatchScan(segment.file, start, segment.size_bytes if end is None else end)
    for _, batch in scan:
        if batch.last_offset >= from_offset:
            log.observer.observe(batch)
    if scan.problem is not None:
        raise CorruptLogError(f"{segment.path} at position {scan.position}: {scan.problem}")

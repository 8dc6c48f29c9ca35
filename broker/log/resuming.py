"""Prepares a loaded segment for appends, or for a scan from an indexed batch on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.scan import BatchScan, place_at
from ottla.broker.log.storage.slices import is_batch_start
from ottla.protocol.errors import CorruptLogError

if TYPE_CHECKING:
    from ottla.broker.log.storage.segment import Segment


def resume_segment(segment: Segment) -> int:
    """Prepare a segment for appends; returns the offset after its last batch.

    Its indexes do not reach beyond the data. Only data after the last index entry is read. Raises
    CorruptLogError, OSError."""
    indexes = segment.load_indexes()
    offsets = indexes.offsets_or_raise
    if offsets and not is_batch_start(segment, offsets.positions[-1]):
        segment.rebuild_indexes()
        offsets = segment.indexes.offsets_or_raise
    segment.take_maximum()
    start = offsets.positions[-1] if offsets else 0
    segment.unindexed_bytes = segment.size_bytes - start
    segment.first_timestamp = _first_timestamp(segment)
    next_offset = segment.base_offset
    scan = BatchScan(segment.file, start, segment.size_bytes)
    for _, batch in scan:
        next_offset = batch.next_offset
        if batch.max_timestamp > segment.largest_timestamp():
            segment.max_timestamp = batch.max_timestamp
            segment.max_timestamp_offset = batch.last_offset
    if scan.problem is not None:
        raise CorruptLogError(f"{segment.path} at position {scan.position}: {scan.problem}")
    return next_offset


def start_of_scan(segment: Segment, recovery_point: int) -> int:
    """The position to scan from: the last indexed batch before the recovery point, or 0.

    The indexes keep the entries before; the caller accounts for all batches from there on."""
    indexes = segment.indexes
    if segment.size_bytes and indexes.load(segment.size_bytes, is_sealed=False):
        position = indexes.offsets_or_raise.floor(recovery_point - 1 - segment.base_offset)
        if position and is_batch_start(segment, position):
            place = place_at(segment.file, position, segment.size_bytes)
            indexes.cut(position, place.base_offset - segment.base_offset)
            if not segment.is_maximum_sound():
                segment.start_scan()
                return 0
            segment.take_maximum()
            segment.first_timestamp = _first_timestamp(segment)
            # That batch had an index entry and must get one again.
            segment.unindexed_bytes = segment.index_interval_bytes + 1
            segment.starts.clear()
            return position
    segment.start_scan()
    return 0


def _first_timestamp(segment: Segment) -> int | None:
    for _, batch in BatchScan(segment.file, 0, segment.size_bytes):
        return batch.max_timestamp
    return None

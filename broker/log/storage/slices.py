"""Lookups in a segment: the batch that holds an offset, and the bytes between two limits.

Results are whole batches. The segment remembers the batch starts that readers will need next, so
that a sequential consumer costs no walk. HOT: ``slice_segment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.scan import BatchPosition, find_offset, place_at, walk
from ottla.broker.log.storage.settings import INT64_MAX
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from ottla.broker.log.storage.segment import Segment

_new_tuple = tuple.__new__


class LogRead(NamedTuple):
    """Whole batches in one region, or None, and the offset to read next.

    The first batch may begin before the requested offset."""

    region: FileRegion | None
    next_offset: int


def slice_segment(
    segment: Segment, offset: int, max_bytes: int, upper_bound_offset: int
) -> LogRead | BatchPosition | None:
    """The batches from the one that holds ``offset`` (or the next) up to both limits.

    None: no batch here reaches the offset below the bound. A BatchPosition: there is a batch, but
    it alone exceeds ``max_bytes``. Raises CorruptLogError, OSError."""
    segment.is_used = True
    start = segment.starts.get(offset)
    if start is None:
        place = locate(segment, offset)
        if place is None:
            return None
        start = place.position
        segment.remember(offset, start)
    end, next_offset = segment.size_bytes, segment.next_offset
    if upper_bound_offset < next_offset:
        end, next_offset = _bound(segment, upper_bound_offset), upper_bound_offset
    if end <= start:
        return None
    if end - start > max_bytes:
        end, next_offset = _cut(segment, start, start + max_bytes)
        if end == start:
            return place_at(segment.file, start, segment.size_bytes)
    # Made directly: a named tuple's constructor is a Python function and twice as slow.
    region = _new_tuple(FileRegion, (segment.file, start, end - start))
    found: LogRead = _new_tuple(LogRead, (region, next_offset))
    return found


def slice_batch(segment: Segment, place: BatchPosition) -> LogRead:
    """One batch, however large (KIP-74: a fetch must never get stuck before it)."""
    region = FileRegion(segment.file, place.position, place.size_bytes)
    segment.remember(place.last_offset + 1, place.position + place.size_bytes)
    return LogRead(region, place.last_offset + 1)


def locate(segment: Segment, offset: int) -> BatchPosition | None:
    """The first batch whose last offset reaches ``offset``; None if there is none here.

    Raises CorruptLogError if the data file is damaged, OSError."""
    position = _floor(segment, offset)
    if not is_batch_start(segment, position, offset):
        segment.rebuild_indexes()
        position = _floor(segment, offset)
    return find_offset(segment.file, position, segment.size_bytes, offset)


def _floor(segment: Segment, offset: int) -> int:
    offsets = segment.indexes.offsets or segment.load_indexes().offsets_or_raise
    return offsets.floor(offset - segment.base_offset)


def _bound(segment: Segment, upper_bound_offset: int) -> int:
    """The position where the batches below an offset end."""
    position = segment.starts.get(upper_bound_offset)
    if position is None:
        place = locate(segment, upper_bound_offset)
        position = segment.size_bytes if place is None else place.position
        segment.remember(upper_bound_offset, position)
    return position


def _cut(segment: Segment, start: int, limit: int) -> tuple[int, int]:
    """The last batch boundary that is cheap to find at or before ``limit``, and its offset."""
    offsets = segment.indexes.offsets or segment.load_indexes().offsets_or_raise
    position = offsets.boundary(limit)
    if position > start and not is_batch_start(segment, position):
        segment.rebuild_indexes()
        position = segment.indexes.offsets_or_raise.boundary(limit)
    if position > start:
        # Behind an indexed boundary there may be another batch below the limit. Leaving it to
        # the next read costs less than walking there.
        place = place_at(segment.file, position, segment.size_bytes)
    else:
        for place in walk(segment.file, start, segment.size_bytes):
            if place.position + place.size_bytes > limit:
                break
    segment.remember(place.base_offset, place.position)
    return place.position, place.base_offset


def is_batch_start(segment: Segment, position: int, limit_offset: int = INT64_MAX) -> bool:
    """Whether an index entry leads to the batch that it names (hazard S-04).

    The batch must end at or before the limit: bisection may overshoot in an unsorted index."""
    indexes = segment.indexes
    if position == 0 or indexes.is_trusted:
        return True
    promised = indexes.entry_offset(position)
    try:
        place = place_at(segment.file, position, segment.size_bytes)
    except CorruptLogError:
        return False
    if promised is None or place.last_offset != segment.base_offset + promised:
        return False
    return place.last_offset <= limit_offset

"""The facts about a segment that retention policies use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.log.open_log import OpenLog


class SegmentView(NamedTuple):
    """A snapshot of one segment; ``max_timestamp`` is -1 if none of its records has one."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp: int
    is_active: bool
    path: str


def view_segments(log: OpenLog) -> list[SegmentView]:
    """All segments, oldest first. Raises CorruptLogError, OSError while reading an index."""
    return [
        SegmentView(
            segment.base_offset,
            segment.next_offset,
            segment.size_bytes,
            segment.largest_timestamp(),
            segment.is_active,
            segment.path,
        )
        for segment in log.segments
    ]

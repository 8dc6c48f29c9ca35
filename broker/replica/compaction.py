"""Selects the logs to compact, and bounds the part that may be compacted.

Compaction keeps the newest record of every key. It never uses records that may still change: above
the high watermark a value may be truncated after it has replaced a committed one; above the last
stable offset the outcome of transactions is unknown (hazard S-21). Only whole segments are cleaned.
broker/cleaner/batches.py decides which records are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
NO_TIMESTAMP = -1


class CompactionRules(NamedTuple):
    """A compacted topic's settings, under Kafka's names."""

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = 86_400_000

    @property
    def has_deadline(self) -> bool:
        """Whether records must be compacted at a certain age, however few they are (KIP-354)."""
        return self.max_compaction_lag_ms < INT64_MAX


class SegmentExtent(NamedTuple):
    """One segment as compaction sees it. Timestamps are -1 if there is none.

    ``first_timestamp`` is needed only where the rules have a deadline."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp: int
    first_timestamp: int = NO_TIMESTAMP
    is_active: bool = False


class Bounds(NamedTuple):
    """Offsets of a log that limit its compaction."""

    log_start_offset: int
    cleaned_offset: int
    high_watermark: int
    last_stable_offset: int


class Dirt(NamedTuple):
    """The work in one log: offsets [first dirty, end), by a rewrite of everything before end."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    # How long the oldest dirty record has been older than ``max.compaction.lag.ms``.
    overdue_ms: int = 0

    @property
    def is_overdue(self) -> bool:
        """Whether records are dirty for longer than the topic allows."""
        return self.overdue_ms > 0

    @property
    def ratio(self) -> float:
        """Dirty bytes per byte that a run has to read."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, rules: CompactionRules) -> bool:
        """Whether a run is worthwhile by the dirty ratio, or overdue."""
        if self.dirty_bytes == 0:
            return False
        return self.is_overdue or self.ratio > rules.min_cleanable_dirty_ratio


def end_of_cleanable(
    segments: Sequence[SegmentExtent], rules: CompactionRules, bounds: Bounds, wall_ms: int
) -> int:
    """The first offset that must not be compacted yet; a segment's base offset (S-21)."""
    limit = min(bounds.high_watermark, bounds.last_stable_offset)
    end = segments[0].base_offset
    for segment in segments:
        if segment.is_active or segment.next_offset > limit:
            break
        if segment.max_timestamp > wall_ms - rules.min_compaction_lag_ms > NO_TIMESTAMP and (
            rules.min_compaction_lag_ms > 0
        ):
            break
        end = segment.next_offset
    assert end <= max(limit, segments[0].base_offset), "records above it may still change (S-21)"
    return end


def survey(
    segments: Sequence[SegmentExtent], rules: CompactionRules, bounds: Bounds, wall_ms: int
) -> Dirt:
    """The work in a log; segments oldest first, the last one active."""
    end_offset = end_of_cleanable(segments, rules, bounds, wall_ms)
    first_dirty = bounds.cleaned_offset
    if not bounds.log_start_offset <= first_dirty <= segments[-1].next_offset:
        # The cleaned offset is of an earlier log of that name, or below the log start.
        first_dirty = bounds.log_start_offset
    clean_bytes = dirty_bytes = 0
    oldest_dirty = NO_TIMESTAMP
    for segment in segments:
        if segment.next_offset <= first_dirty:
            clean_bytes += segment.size_bytes
        elif segment.next_offset <= end_offset and segment.size_bytes:
            dirty_bytes += segment.size_bytes
            if oldest_dirty == NO_TIMESTAMP:
                oldest_dirty = segment.first_timestamp
    assert dirty_bytes == 0 or first_dirty < end_offset
    overdue_ms = 0
    if rules.has_deadline and dirty_bytes > 0 and oldest_dirty > NO_TIMESTAMP:
        overdue_ms = max(0, wall_ms - oldest_dirty - rules.max_compaction_lag_ms)
    return Dirt(first_dirty, end_offset, clean_bytes, dirty_bytes, overdue_ms)


def order_of_work(dirt: Dirt) -> tuple[bool, float, int]:
    """Sort key by urgency, to be reversed: overdue logs, then by ratio."""
    return dirt.is_overdue, dirt.ratio, dirt.dirty_bytes


class GroupLimits(NamedTuple):
    """Limits of a merged segment; the size of an index in entries."""

    segment_bytes: int
    index_interval_bytes: int
    index_entries_max: int


def group_segments(
    segments: Sequence[SegmentExtent], end_offset: int, limits: GroupLimits
) -> list[list[SegmentExtent]]:
    """Group neighbours that fit one segment, so that small cleaned ones do not accumulate.

    Uses their present sizes: segments that shrink in a run are merged by the next one."""
    groups: list[list[SegmentExtent]] = []
    size_bytes = 0
    for segment in segments:
        if segment.is_active or segment.base_offset >= end_offset:
            break
        size_bytes += segment.size_bytes
        entries = size_bytes // max(1, limits.index_interval_bytes)
        fits = (
            size_bytes <= min(limits.segment_bytes, INT32_MAX)
            and entries <= limits.index_entries_max
            and groups
            and segment.next_offset - 1 - groups[-1][0].base_offset <= INT32_MAX
        )
        assert not groups or groups[-1][-1].next_offset <= segment.base_offset
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups

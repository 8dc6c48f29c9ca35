"""What the cleaner sees of a partition, and the order it makes of it.

Everything is taken in one step, without ``await``: offsets, segments and producers belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cleaner.batches import Horizons, LiveProducer
from ottla.broker.cleaner.cleaner_run import CleanOrder, SourceFile
from ottla.broker.log.clean_swap import Sources, sources_of
from ottla.broker.log.storage.scan import MAX_TIMESTAMP_POSITION
from ottla.broker.replica.compaction import (
    NO_TIMESTAMP,
    Bounds,
    CompactionRules,
    Dirt,
    GroupLimits,
    SegmentExtent,
    group_segments,
    survey,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.cleaner.settings import CleaningSettings
    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.storage.segment import Segment
    from ottla.broker.partitions.partition import PartitionRuntime


class Survey(NamedTuple):
    """One partition as of now."""

    one: PartitionRuntime
    rules: CompactionRules
    extents: list[SegmentExtent]
    dirt: Dirt


class CleaningPlan(NamedTuple):
    """One run: what is ordered, and the segments that each group stands for."""

    one: PartitionRuntime
    order: CleanOrder
    sources: tuple[Sources, ...]

    def is_current(self, from_number: int) -> bool:
        """Whether nothing has happened that what was read says otherwise (hazard S-26).

        A value that replaced others may have been truncated; that what was read is deleted from
        the old end on is no harm. The topic may not want to be compacted any more."""
        one = self.one
        if one.settings.compaction is None or one.log.refusal is not None or one.log.is_moving:
            return False
        return all(
            sources.are_in(one.log) or sources.were_deleted(one.log)
            for sources in self.sources[from_number:]
        )


def survey_partition(one: PartitionRuntime, wall_ms: int) -> Survey | None:
    """How dirty a partition is, None if it is not compacted, or not while it is being moved: a copy
    that has aborted records and misses their marker would show them.

    Raises CorruptLogError, OSError while looking at an index."""
    rules = one.settings.compaction
    log = one.log
    if rules is None or log.refusal is not None or log.is_moving:
        return None
    extents = [_extent(log, segment, rules) for segment in log.segments]
    bounds = Bounds(
        log.log_start_offset,
        log.cleaned_offset,
        one.replica.high_watermark,
        one.replica.last_stable_offset,
    )
    return Survey(one, rules, extents, survey(extents, rules, bounds, wall_ms))


def _extent(log: OpenLog, segment: Segment, rules: CompactionRules) -> SegmentExtent:
    """Times are looked up only where the rules ask for them: they may cost a read."""
    first_timestamp = max_timestamp = NO_TIMESTAMP
    if not segment.is_active and segment.next_offset > log.cleaned_offset:
        if rules.min_compaction_lag_ms:
            max_timestamp = segment.largest_timestamp()
        if rules.has_deadline and segment.size_bytes:
            content = segment.file.pread(8, MAX_TIMESTAMP_POSITION)
            first_timestamp = int.from_bytes(content, signed=True)
    return SegmentExtent(
        segment.base_offset,
        log.log_end_offset if segment.is_active else segment.next_offset,
        segment.size_bytes,
        max_timestamp,
        first_timestamp,
        segment.is_active,
    )


def plan_run(
    found: Survey, settings: CleaningSettings, wall_ms: int, *, trusts_clock: bool
) -> CleaningPlan:
    """The order for a run. Raises CorruptLogError if a transaction index is spoiled, OSError."""
    one, rules, dirt = found.one, found.rules, found.dirt
    log = one.log
    limits = GroupLimits(
        log.settings.segment_bytes,
        log.settings.index_interval_bytes,
        log.settings.index_entries_max,
    )
    groups = group_segments(found.extents, dirt.end_offset, limits)
    segments = {segment.base_offset: segment for segment in log.segments}
    sources = tuple(
        sources_of([segments[extent.base_offset] for extent in group]) for group in groups
    )
    # Records above it may still change (hazard S-21).
    assert not sources or sources[-1].segments[-1].next_offset <= dirt.end_offset
    order = CleanOrder(
        directory=log.directory,
        groups=tuple(
            tuple(
                SourceFile(one.path, one.base_offset, one.next_offset, size_bytes)
                for one, size_bytes in zip(each.segments, each.sizes, strict=True)
            )
            for each in sources
        ),
        first_dirty_offset=dirt.first_dirty_offset,
        aborted=tuple(
            row
            for segment in log.segments
            if log.has_aborted
            for row in segment.transactions.entries
        ),
        producers=_live_producers(one),
        # After a jump of the clock no tombstone goes until it is trusted again (hazard S-18).
        horizons=Horizons(wall_ms + rules.delete_retention_ms, wall_ms if trusts_clock else -1),
        index_interval_bytes=log.settings.index_interval_bytes,
        budget_bytes=settings.budget_bytes,
        bytes_per_second=settings.io_max_bytes_per_second,
    )
    return CleaningPlan(one, order, sources)


def _live_producers(one: PartitionRuntime) -> dict[int, LiveProducer]:
    return {
        producer_id: LiveProducer(
            state.producer_epoch, tuple(batch.last_offset for batch in state.batches)
        )
        for producer_id, state in one.replica.history.producers
    }

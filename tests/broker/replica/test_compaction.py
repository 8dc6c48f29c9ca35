"""Which log is cleaned, how far, and in what pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.replica.compaction import (
    INT32_MAX,
    Bounds,
    CompactionRules,
    GroupLimits,
    SegmentExtent,
    end_of_cleanable,
    group_segments,
    order_of_work,
    survey,
)

WALL_MS = 1_700_000_000_000
DAY_MS = 86_400_000
RULES = CompactionRules()
ROOMY = GroupLimits(1 << 30, 4096, 1 << 20)


def extents(*sizes: int, span: int = 10, age_ms: int = DAY_MS) -> list[SegmentExtent]:
    """Segments of ten offsets each; the last one is active."""
    return [
        SegmentExtent(
            number * span,
            (number + 1) * span,
            size,
            WALL_MS - age_ms,
            WALL_MS - age_ms,
            number == len(sizes) - 1,
        )
        for number, size in enumerate(sizes)
    ]


def bounds(cleaned: int = 0, *, watermark: int = 1 << 40, stable: int = 1 << 40) -> Bounds:
    return Bounds(0, cleaned, watermark, stable)


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        (bounds(), 30),
        (bounds(watermark=29), 20),
        (bounds(watermark=30), 30),
        (bounds(stable=10), 10),
        (bounds(watermark=25, stable=5), 0),
    ],
)
def test_nothing_is_cleaned_at_or_above_what_may_still_change(limits: Bounds, end: int) -> None:
    """S-21: high watermark, last stable offset and the active segment, in whole segments."""
    assert end_of_cleanable(extents(1, 1, 1, 1), RULES, limits, WALL_MS) == end


def test_records_newer_than_the_minimum_lag_are_not_compacted() -> None:
    """min.compaction.lag.ms: a consumer that follows closely sees every value."""
    rules = RULES._replace(min_compaction_lag_ms=3 * DAY_MS)
    segments = extents(1, 1, 1)
    old = segments[0]._replace(max_timestamp=WALL_MS - 4 * DAY_MS)

    assert end_of_cleanable([old, *segments[1:]], rules, bounds(), WALL_MS) == 10
    assert end_of_cleanable(segments, rules, bounds(), WALL_MS) == 0


def test_the_ratio_decides_whether_a_run_is_worth_its_work() -> None:
    """A run reads all of the log to clean the new part."""
    found = survey(extents(700, 300, 50), RULES, bounds(cleaned=10), WALL_MS)

    assert (found.first_dirty_offset, found.end_offset) == (10, 20)
    assert (found.clean_bytes, found.dirty_bytes, found.ratio) == (700, 300, 0.3)
    assert not found.is_due(RULES)
    assert found.is_due(RULES._replace(min_cleanable_dirty_ratio=0.29))


def test_age_forces_a_run_that_the_ratio_would_not() -> None:
    """max.compaction.lag.ms is a promise: a deleted person is gone by then (KIP-354)."""
    rules = RULES._replace(max_compaction_lag_ms=DAY_MS - 1, min_cleanable_dirty_ratio=1.0)
    overdue = survey(extents(900, 100, 1), rules, bounds(cleaned=10), WALL_MS)
    in_time = survey(extents(900, 100, 1, age_ms=5), rules, bounds(cleaned=10), WALL_MS)

    assert overdue.is_due(rules)
    assert not in_time.is_due(rules)
    assert not survey(extents(900, 1), rules, bounds(cleaned=10), WALL_MS).is_due(rules)


def test_what_is_overdue_comes_first_and_then_the_dirtiest() -> None:
    """One log at a time: the order is all that there is to choose."""
    rules = RULES._replace(max_compaction_lag_ms=DAY_MS - 1)
    overdue = survey(extents(900, 100, 1), rules, bounds(cleaned=10), WALL_MS)
    dirty = survey(extents(100, 900, 1), RULES, bounds(cleaned=10), WALL_MS)
    dirtier = survey(extents(100, 900, 1), RULES, bounds(), WALL_MS)

    assert sorted([dirtier, overdue, dirty], key=order_of_work) == [dirty, dirtier, overdue]


@pytest.mark.parametrize("cleaned", [-5, 5, 1000])
def test_a_checkpoint_of_another_log_counts_for_nothing(cleaned: int) -> None:
    """It may be left by a topic of the same name, or lie before the log's start."""
    limits = Bounds(10, cleaned, 1 << 40, 1 << 40)

    assert survey(extents(1, 1, 1), RULES, limits, WALL_MS).first_dirty_offset == 10


def test_segments_are_merged_up_to_the_size_of_one() -> None:
    """By bytes, by entries of the index, and by the span that 32 bits can tell apart."""
    segments = extents(40, 40, 40, 90, 10, 5)

    def sizes(limits: GroupLimits, source: list[SegmentExtent] = segments) -> list[list[int]]:
        groups = group_segments(source, 1 << 60, limits)
        return [[one.size_bytes for one in group] for group in groups]

    assert sizes(ROOMY) == [[40, 40, 40, 90, 10]]
    assert sizes(ROOMY._replace(segment_bytes=100)) == [[40, 40], [40], [90, 10]]
    assert sizes(GroupLimits(1000, 10, 9)) == [[40, 40], [40], [90], [10]]
    far = extents(1, 1, 1, 1, span=INT32_MAX // 2 + 1)
    assert sizes(ROOMY, far) == [[1, 1], [1]]
    assert group_segments(segments, 20, ROOMY) == [segments[:2]]


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=20), st.integers(1, 400), st.integers(0, 210)
)
def test_groups_are_neighbours_without_a_gap(sizes: list[int], limit: int, end: int) -> None:
    """Every segment up to the end is in one group, none that is active in any."""
    segments = extents(*sizes)
    groups = group_segments(segments, end, ROOMY._replace(segment_bytes=limit))

    flat = [one for group in groups for one in group]
    assert flat == [one for one in segments[:-1] if one.base_offset < end]
    assert all(len(group) == 1 or sum(o.size_bytes for o in group) <= limit for group in groups)

"""Which segments may go: by age, by size, by a user's rule, and never because of a wrong clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.retention import (
    ClockWatch,
    ModifiedTimeRetention,
    Policy,
    SegmentFacts,
    SizeRetention,
    TimeRetention,
    deletable_count,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS


def segments_of(
    *ages_ms: int, size_bytes: int = 100, modified_age_ms: int = 0
) -> list[SegmentFacts]:
    """Segments of ten records each, whose latest record is that old; the last one is active."""
    return [
        SegmentFacts(
            index * 10,
            index * 10 + 10,
            size_bytes,
            NOW_MS - age_ms,
            NOW_MS - modified_age_ms,
            is_active=index == len(ages_ms) - 1,
        )
        for index, age_ms in enumerate(ages_ms)
    ]


def count(segments: Sequence[SegmentFacts], *policies: Policy, high_watermark: int = 1_000) -> int:
    return deletable_count(segments, policies, NOW_MS, high_watermark=high_watermark)


@pytest.mark.requirement("LOG-19")
def test_a_segment_is_as_old_as_its_latest_record() -> None:
    """Exactly the retention is not yet too old; a young record protects the old ones beside it."""
    segments = segments_of(2 * DAY_MS, DAY_MS + 1, DAY_MS, 3 * DAY_MS, 0)

    assert count(segments, TimeRetention(DAY_MS)) == 2


@pytest.mark.requirement("LOG-20")
def test_the_older_rule_looks_at_the_file() -> None:
    """Only where it was asked for: a copy resets the times of files."""
    segments = segments_of(0, 0, modified_age_ms=8 * DAY_MS)

    assert count(segments, ModifiedTimeRetention(7 * DAY_MS)) == 2
    assert count(segments, ModifiedTimeRetention(8 * DAY_MS)) == 0
    assert count(segments, TimeRetention(DAY_MS)) == 0


@pytest.mark.requirement("LOG-21")
@pytest.mark.parametrize(
    ("limit_bytes", "deleted"),
    [(400, 0), (399, 0), (301, 0), (300, 1), (250, 1), (200, 2), (100, 3), (1, 3), (0, 4), (-1, 0)],
)
def test_the_oldest_go_only_while_what_remains_is_not_below_the_limit(
    limit_bytes: int, deleted: int
) -> None:
    """As in Kafka the limit is what a partition keeps at least; no limit deletes nothing."""
    segments = segments_of(0, 0, 0, 0)

    assert count(segments, SizeRetention(limit_bytes)) == deleted


@pytest.mark.requirement("LOG-21")
def test_a_limit_of_one_segment_keeps_a_full_segment_after_a_roll() -> None:
    """Deleting until the partition fits would leave the one batch behind the roll, and take what a
    consumer has not read that is a second behind."""
    full = SegmentFacts(0, 10, 1_000_720, NOW_MS, NOW_MS)
    active = SegmentFacts(10, 11, 100_072, NOW_MS, NOW_MS, is_active=True)

    assert count([full, active], SizeRetention(1_048_576)) == 0
    assert count([full, active], SizeRetention(100_072)) == 1


@pytest.mark.requirement("LOG-22")
def test_either_policy_is_enough() -> None:
    """One names the first segment, the other the second: both go."""
    segments = segments_of(0, 2 * DAY_MS, 0)
    by_size, by_time = SizeRetention(200), TimeRetention(DAY_MS)

    assert [count(segments, by_size), count(segments, by_time)] == [1, 0]
    assert count(segments, by_size, by_time) == 2


@pytest.mark.requirement("LOG-23")
def test_a_users_rule_is_obeyed() -> None:
    """Any function of the segments will do."""

    def everything_before_twenty(
        segments: Sequence[SegmentFacts], wall_ms: int
    ) -> list[SegmentFacts]:
        return [one for one in segments if one.next_offset <= 20]

    assert count(segments_of(0, 0, 0, 0), everything_before_twenty) == 2


def test_nothing_that_is_not_committed_is_deleted() -> None:
    """A follower may still need it, and the log start must not pass the high watermark."""
    segments = segments_of(*[2 * DAY_MS] * 4)

    assert count(segments, TimeRetention(DAY_MS), high_watermark=29) == 2
    assert count(segments, TimeRetention(DAY_MS), high_watermark=40) == 4


def test_segments_before_the_log_start_go_without_a_policy() -> None:
    """DeleteRecords has given them up."""
    segments = segments_of(0, 0, 0)
    gone = deletable_count(segments, [], NOW_MS, high_watermark=30, log_start_offset=29)

    assert gone == 2


def test_an_empty_active_segment_is_kept() -> None:
    """Rolling it would make another one at the same offset (S-16)."""
    empty = SegmentFacts(10, 10, 0, -1, NOW_MS - YEAR_MS, is_active=True)

    assert count([*segments_of(2 * DAY_MS), empty], TimeRetention(DAY_MS)) == 1


@pytest.mark.parametrize(
    ("max_timestamp", "modified_ms", "deletable_at_ms"),
    [
        (NOW_MS - 5, NOW_MS - DAY_MS, NOW_MS - 5 + DAY_MS),
        # A record from the future does not pin the disk; a copied file is no older than its copy.
        (NOW_MS + YEAR_MS, NOW_MS - DAY_MS, NOW_MS),
        (NOW_MS + YEAR_MS, NOW_MS + YEAR_MS, NOW_MS + DAY_MS),
        (-1, NOW_MS - DAY_MS, NOW_MS),
    ],
)
def test_wrong_record_times_neither_delete_nor_keep_for_ever(
    max_timestamp: int, modified_ms: int, deletable_at_ms: int
) -> None:
    """Operators may ask when a segment goes (S-17)."""
    segment = SegmentFacts(0, 10, 100, max_timestamp, modified_ms)

    assert TimeRetention(DAY_MS).deletable_at_ms(segment, NOW_MS) == deletable_at_ms


def test_no_limit_of_time_keeps_for_ever() -> None:
    """retention.ms=-1."""
    assert count(segments_of(YEAR_MS, YEAR_MS), TimeRetention(-1), ModifiedTimeRetention(-1)) == 0


def test_a_jump_of_the_wall_clock_suspends_trust_until_both_agree_again() -> None:
    """One step of a year would delete everything (S-18)."""
    watch = ClockWatch(tolerance_ms=600_000, settle_ms=3_600_000)
    minutes = [0, 5, 10, 15, 40, 70, 71]
    walls = [0, 5, 10, 15 + 525_600, 40 + 525_600, 70 + 525_600, 75 + 525_600]
    trusted = [
        watch.is_trusted(now * 60_000.0, NOW_MS + wall * 60_000)
        for now, wall in zip(minutes, walls, strict=True)
    ]

    assert trusted == [True, True, True, False, False, False, False]
    assert watch.is_trusted(76 * 60_000.0, NOW_MS + (80 + 525_600) * 60_000)


def test_a_slow_drift_is_no_jump() -> None:
    """Clocks of machines differ by seconds a day; over a year that is more than the tolerance."""
    watch = ClockWatch(tolerance_ms=1_000)

    assert all(watch.is_trusted(step * 1e6, NOW_MS + step * 1_000_500) for step in range(100))


@pytest.mark.parametrize("passed_ms", [YEAR_MS, -YEAR_MS, 601_000])
def test_after_a_gap_between_two_lives_time_is_trusted_once_it_has_settled(passed_ms: int) -> None:
    """S-18: while no process ran, a jump looks like a long sleep. Deleting an hour later harms
    neither; at once, it harms the first one for good."""
    watch = ClockWatch(tolerance_ms=600_000, settle_ms=3_600_000)
    wall_ms = NOW_MS + passed_ms

    begun = watch.begin(5_000.0, wall_ms, NOW_MS)
    looks = [watch.is_trusted(5_000.0 + later, wall_ms + later) for later in (0, 3_599_999)]

    assert (begun, looks) == (False, [False, False])
    assert watch.is_trusted(5_000.0 + 3_600_000, wall_ms + 3_600_000)


@pytest.mark.parametrize("last_wall_ms", [None, NOW_MS - 599_000, NOW_MS])
def test_a_restart_is_no_reason_for_doubt(last_wall_ms: int | None) -> None:
    """Else a broker that is restarted every hour would keep everything."""
    watch = ClockWatch(tolerance_ms=600_000)

    assert watch.begin(0.0, NOW_MS, last_wall_ms)
    assert watch.is_trusted(1_000.0, NOW_MS + 1_000)

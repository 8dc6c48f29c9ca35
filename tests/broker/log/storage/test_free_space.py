"""What is reported of a disk's room: at once when it is full, and not back and forth."""

from __future__ import annotations

from itertools import pairwise

from ottla.broker.log.storage.free_space import (
    ENOUGH,
    FREED_BYTES,
    LOW,
    NONE,
    RETRY_MS,
    RETRY_MS_MAX,
    SETTLE_MS,
    RoomGauge,
)

FLOOR = 1_000_000


def test_below_the_floor_room_is_low_at_once_and_enough_again_after_a_while() -> None:
    """A disk that hovers about the floor would send its leaderships back and forth."""
    gauge = RoomGauge(FLOOR)
    looks = [
        (0, FLOOR, ENOUGH),
        (1_000, FLOOR - 1, LOW),
        (2_000, FLOOR, LOW),
        (3_000, 2 * FLOOR, LOW),
        (3_500, FLOOR, LOW),
        (4_000, 2 * FLOOR, LOW),
        (4_000 + SETTLE_MS - 1, 2 * FLOOR, LOW),
        (4_000 + SETTLE_MS, 2 * FLOOR, ENOUGH),
    ]

    assert [gauge.look(free, now) for now, free, _ in looks] == [room for _, _, room in looks]


def test_a_refused_write_counts_more_than_the_free_space() -> None:
    """A quota, or blocks that are reserved for root: the disk says how much is free and lies."""
    gauge = RoomGauge(0)
    assert gauge.look(50_000_000, 0) == ENOUGH
    gauge.refused()
    assert gauge.room == NONE

    assert gauge.look(50_000_000, 1_000) == NONE
    assert gauge.look(50_000_000, 1_000 + RETRY_MS - 1) == NONE
    assert gauge.look(50_000_000, 1_000 + RETRY_MS) == LOW


def test_freed_space_ends_the_refusal() -> None:
    """First what others lead is fetched again; leading comes when that has gone well."""
    gauge = RoomGauge(0)
    gauge.refused()
    gauge.look(4_000, 0)

    assert gauge.look(4_000 + FREED_BYTES - 1, 100) == NONE
    assert gauge.look(4_000 + FREED_BYTES, 200) == LOW
    gauge.look(4_000 + FREED_BYTES, 300)
    assert gauge.look(4_000 + FREED_BYTES, 300 + SETTLE_MS) == ENOUGH


def test_a_second_refusal_begins_the_wait_anew() -> None:
    """What was freed may be used up by something else on the same disk."""
    gauge = RoomGauge(0)
    for begin in (0.0, 50_000.0):
        gauge.refused()
        assert gauge.look(0, begin) == NONE
        assert gauge.look(0, begin + RETRY_MS - 1) == NONE
        assert gauge.look(0, begin + RETRY_MS) == LOW


def test_a_disk_that_stays_full_is_tried_less_and_less_often() -> None:
    """Each try lets the idle partitions of that disk rejoin their ISRs, only to leave again."""
    gauge = RoomGauge(FLOOR)
    tries = []
    for now in range(0, 300_000, 1_000):
        if gauge.room is not NONE:
            gauge.refused()
        if gauge.look(0, now) is LOW:
            tries.append(now)
    between = [later - earlier for earlier, later in pairwise(tries)]
    freed = gauge.look(2 * FLOOR, 300_000), gauge.look(2 * FLOOR, 301_000)

    assert between[:2] == [21_000, 41_000]
    assert max(between) == RETRY_MS_MAX + 1_000
    assert LOW in freed

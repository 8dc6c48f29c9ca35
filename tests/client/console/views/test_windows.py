"""Which offsets a page of records reads, and where the next page begins."""

from __future__ import annotations

import pytest

from ottla.client.console.record_runs import SeenRecord
from ottla.client.console.views.asked import BadRequest
from ottla.client.console.views.windows import (
    RecordWindow,
    backward,
    forward,
    has_newer,
    has_older,
    newest_first,
    older_places,
    places_text,
    read_places,
)

LIMITS = {0: (10, 100), 1: (0, 3), 2: (5, 5)}


def test_the_newest_records_are_shared_by_the_partitions() -> None:
    """A topic with a thousand partitions must not read a thousand pages."""
    assert backward(LIMITS, {}, 30) == [
        RecordWindow(0, 73, 100),
        RecordWindow(1, 0, 3),
        RecordWindow(2, 5, 5),
    ]
    assert backward(LIMITS, {0: 50, 1: 0}, 30)[:2] == [
        RecordWindow(0, 20, 50),
        RecordWindow(1, 0, 0),
    ]
    assert backward({0: (0, 99), 1: (0, 99)}, {}, 30) == [
        RecordWindow(0, 84, 99),
        RecordWindow(1, 84, 99),
    ]
    assert backward({}, {}, 30) == []


def test_places_outside_of_the_log_are_moved_into_it() -> None:
    """A bookmark outlives retention."""
    assert forward(LIMITS, {0: 5, 1: 9}) == [
        RecordWindow(0, 10, 100),
        RecordWindow(1, 3, 3),
        RecordWindow(2, 5, 5),
    ]


def _records(partition: int, *rows: tuple[int, int]) -> list[tuple[int, SeenRecord]]:
    return [
        (partition, SeenRecord("t", partition, offset, time, None, None, ()))
        for offset, time in rows
    ]


def test_the_newest_come_first_and_offsets_keep_their_order() -> None:
    """Producers' clocks differ: within a partition the offset decides."""
    found = _records(0, (1, 100), (2, 50), (3, 300)) + _records(1, (7, 200))

    shown = newest_first(found, 3)

    assert [(partition, one.offset) for partition, one in shown] == [(0, 3), (1, 7), (0, 2)]


def test_the_older_page_begins_where_this_one_has_left_out_records() -> None:
    """No record may be lost between two pages."""
    windows = [RecordWindow(0, 0, 9), RecordWindow(1, 4, 9), RecordWindow(2, 2, 9)]
    found = _records(0, (1, 100), (2, 110), (3, 120)) + _records(1, (7, 200)) + _records(2, (5, 1))
    kept = newest_first(found, 3)

    places = older_places(windows, found, kept)

    assert places == {0: 2, 1: 4, 2: 9}
    seen = {(partition, one.offset) for partition, one in kept}
    left = {(partition, one.offset) for partition, one in found} - seen
    assert all(offset < places[partition] for partition, offset in left)


def test_pages_end_at_both_ends_of_the_log() -> None:
    """Without a link that leads to nothing."""
    assert has_older(LIMITS, {0: 11})
    assert not has_older(LIMITS, {0: 10, 1: 0})
    assert has_newer(LIMITS, {0: 99})
    assert not has_newer(LIMITS, {0: 100, 1: 3})


def test_places_are_part_of_an_address() -> None:
    """What is written can be read, and the rest is refused with a sentence."""
    assert read_places("at", places_text({3: 7, 0: 2**62})) == {0: 2**62, 3: 7}
    assert read_places("at", "") == {}
    for text in ("3", "a:1", "1:b"):
        with pytest.raises(BadRequest):
            read_places("at", text)

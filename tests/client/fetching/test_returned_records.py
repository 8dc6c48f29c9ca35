"""Which returned records the application has finished with."""

from __future__ import annotations

import sys
import threading
from typing import NamedTuple

from ottla.client.fetching.returned_records import ReturnedRecords
from ottla.protocol.ids import TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Row(NamedTuple):
    """A record, as far as it matters here."""

    offset: int
    partition: int = 0
    topic: str = "t"


def test_a_record_is_finished_when_the_next_one_is_asked_for() -> None:
    """The one at hand may fail: committed before that, it would be lost."""
    handed = ReturnedRecords()
    records = iter(handed.iterate([Row(3), Row(7, 1), Row(4), Row(5)]))

    assert handed.unfinished() == {FIRST: 3, SECOND: 7}
    assert [next(records), next(records)] == [Row(3), Row(7, 1)]
    assert handed.unfinished() == {SECOND: 7, FIRST: 4}
    assert handed.waiting() == {FIRST: 4}


def test_what_is_interrupted_hands_out_no_more() -> None:
    """The rest begins where the answer says; the one at hand may be in work still."""
    handed = ReturnedRecords()
    records = iter(handed.iterate([Row(3), Row(4), Row(5)]))
    next(records)

    assert handed.interrupt() == {FIRST: 4}
    assert list(records) == []
    assert handed.unfinished() == {FIRST: 3}
    assert handed.interrupt() == {}


def test_asking_for_more_ends_an_iteration() -> None:
    """A poll inside a loop over records returns the rest of those records itself."""
    handed = ReturnedRecords()
    records = iter(handed.iterate([Row(3), Row(4)]))
    handed.finish()

    assert list(records) == []
    assert handed.unfinished() == {}


def test_what_the_application_has_committed_is_finished() -> None:
    """Otherwise an automatic commit would undo the application's own."""
    handed = ReturnedRecords()
    handed.take(FIRST, 10)
    handed.take(SECOND, 20)
    handed.settle({FIRST: 15, SECOND: 12})

    assert handed.unfinished() == {FIRST: 15, SECOND: 20}

    handed.finish()
    handed.take(FIRST, 10)
    assert handed.unfinished() == {FIRST: 10}


def test_an_interruption_from_another_thread_hands_no_record_out_twice() -> None:
    """A blocking program iterates in its own thread, while the group's changes interrupt it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            handed = ReturnedRecords()
            records = iter(handed.iterate([Row(offset) for offset in range(300)]))
            put_back: list[dict[TopicPartition, int]] = []
            thread = threading.Thread(target=_interrupt, args=(handed, put_back))
            thread.start()
            given = [record.offset for record in records]
            thread.join()

            left = put_back[0].get(FIRST, 300)
            assert given == list(range(left))
    finally:
        sys.setswitchinterval(before)


def _interrupt(handed: ReturnedRecords, put_back: list[dict[TopicPartition, int]]) -> None:
    put_back.append(handed.interrupt())

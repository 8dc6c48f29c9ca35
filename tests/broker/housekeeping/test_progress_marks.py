"""What a broker remembers of the way of records to the replicas, within bounds."""

from __future__ import annotations

from ottla.broker.housekeeping.progress_marks import LeaderProgress, ProgressMarks
from ottla.protocol.ids import TopicPartition

WHERE = TopicPartition("t", 0)


def look(marks: ProgressMarks, time_ms: int, watermark: int, **ends: int) -> None:
    """One look, a hundred milliseconds after the one before."""
    by_node = {int(name[1:]): end for name, end in ends.items()}
    marks.note(WHERE, LeaderProgress(5, watermark, by_node), (time_ms - 100, time_ms))


def test_each_step_of_a_record_lies_between_two_looks() -> None:
    """A time that was never measured must not look exact."""
    marks = ProgressMarks(1)
    look(marks, 1000, 0, n1=0, n2=0)
    look(marks, 1100, 0, n1=0, n2=0)
    look(marks, 5000, 0, n1=3, n2=0)
    look(marks, 5100, 0, n1=3, n2=2)
    look(marks, 5200, 2, n1=3, n2=2)

    found = marks.of(WHERE, 1)

    assert found == {
        "node_id": 1,
        "since_ms": 1000,
        "leader_epochs": [5],
        "replicas": {
            "1": {"after_ms": 4900, "by_ms": 5000},
            "2": {"after_ms": 5000, "by_ms": 5100},
        },
        "visible": {"after_ms": 5100, "by_ms": 5200},
    }
    assert len(marks) == 4


def test_what_was_there_at_the_first_look_is_not_known_any_more() -> None:
    """The record may have come a year before."""
    marks = ProgressMarks(1)
    look(marks, 1000, 5, n1=5)

    found = marks.of(WHERE, 4)
    later = marks.of(WHERE, 5)

    assert found is not None
    assert found["visible"] == {"after_ms": None, "by_ms": 1000}
    assert later is not None
    assert (later["visible"], later["replicas"]) == (None, {})


def test_a_record_that_was_cut_and_written_again_came_the_second_time() -> None:
    """The first one was another record of that offset."""
    marks = ProgressMarks(1)
    for time_ms, end in ((1000, 3), (2000, 9), (3000, 4), (4000, 9)):
        look(marks, time_ms, 0, n1=end)

    found = marks.of(WHERE, 6)

    assert found is not None
    assert found["replicas"] == {"1": {"after_ms": 3900, "by_ms": 4000}}


def test_the_oldest_marks_of_all_partitions_are_forgotten_first() -> None:
    """Ten thousand partitions must not cost more memory than one."""
    marks = ProgressMarks(1, marks_max=3)
    other = TopicPartition("other", 0)
    marks.note(other, LeaderProgress(0, 0, {1: 1}), (0, 500))
    for number in range(3):
        look(marks, 1000 + number, 0, n1=number)

    assert len(marks) == 3
    assert marks.of(other, 0) is None
    look(marks, 2000, 0, n1=9)
    found = marks.of(WHERE, 0)
    assert found is not None
    assert found["replicas"] == {"1": {"after_ms": None, "by_ms": 1001}}

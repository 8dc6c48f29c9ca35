"""Deciding how to treat a micro-batch that may have been written before."""

from __future__ import annotations

import pytest

from ottla.client.spark.sink_ledger import (
    CommitDecision,
    Entry,
    Part,
    TaskOutcome,
    WriteRefused,
    is_written,
    judge_batch,
    judge_foreign,
    name_of,
    read_entry,
)

LAST = Entry(4, 10, "c4", 2)
THIS = Entry(5, 10, "c5", 2)


def part(number: int, outcome: TaskOutcome, before: Entry | None = None, rows: int = 10) -> Part:
    return Part(number, outcome, rows, "c5", before, looked_ms=0)


def test_an_entry_survives_the_way_through_a_committed_offset() -> None:
    """All that is known after a crash is this text."""
    entry = Entry(7, 123, "00ff00ff00ff00ff", 3)

    assert read_entry(entry.text) == entry


@pytest.mark.parametrize("text", ["", "hello", "v=2 batch=1 rows=1 checksum=a tasks=1", "v=1"])
def test_offsets_that_no_sink_has_written_are_refused(text: str) -> None:
    """To take them for "nothing written yet" would store rows twice."""
    with pytest.raises(WriteRefused, match="used for something else"):
        read_entry(text)


def test_every_query_and_task_has_a_name_of_its_own() -> None:
    """Two queries with one prefix must not fence each other."""
    names = {name_of("p", query, task) for query in ("a", "b") for task in range(3)}

    assert len(names) == 6


def test_a_task_writes_unless_its_part_is_committed() -> None:
    """Batch 0 of a new query finds nothing, later ones the batch before or an even older one."""
    assert not is_written(None, 0)
    assert not is_written(LAST, 5)
    assert not is_written(LAST, 9)
    assert is_written(THIS, 5)


def test_a_batch_from_before_the_last_one_is_refused() -> None:
    """A checkpoint that was set back would write everything once more."""
    with pytest.raises(WriteRefused, match="micro-batch 3 is older than 4"):
        is_written(LAST, 3)


def test_task_0_is_committed_before_the_others() -> None:
    """The entry of task 0 gives every later attempt the number of tasks."""
    parts = [part(number, TaskOutcome.OPEN, LAST) for number in range(3)]

    assert judge_batch(5, parts, may_begin=False) == CommitDecision(is_new=True, rest=(1, 2))


def test_the_first_batch_needs_no_entry() -> None:
    """No task can have written before it."""
    verdict = judge_batch(0, [part(0, TaskOutcome.OPEN)], may_begin=False)

    assert verdict == CommitDecision(is_new=True)


def test_a_later_batch_without_an_entry_is_refused_until_an_option_allows_it() -> None:
    """The entry may have expired, and with it the knowledge of what was written."""
    parts = [part(0, TaskOutcome.OPEN)]

    with pytest.raises(WriteRefused, match="missingLedger=begin"):
        judge_batch(5, parts, may_begin=False)
    assert judge_batch(5, parts, may_begin=True).is_new


def test_a_first_batch_of_long_ago_without_an_entry_is_refused_in_the_same_way() -> None:
    """An earlier attempt may have written it, and its entry have expired since."""
    parts = [part(0, TaskOutcome.OPEN)]

    with pytest.raises(WriteRefused, match=r"micro-batch 0 was first .* missingLedger=begin"):
        judge_batch(0, parts, may_begin=False, is_late=True)
    assert judge_batch(0, parts, may_begin=True, is_late=True).is_new
    found = [part(0, TaskOutcome.SAME, THIS._replace(batch_id=0, task_count=1))]
    assert judge_batch(0, found, may_begin=False, is_late=True) == CommitDecision()


def test_a_ledger_with_a_hole_at_task_0_is_refused() -> None:
    """Task 0 is committed first, so its group was deleted; its rows may be in the topic."""
    parts = [part(0, TaskOutcome.OPEN), part(1, TaskOutcome.SAME, THIS)]

    for may_begin in (False, True):
        with pytest.raises(WriteRefused, match=r"by task 1 and not by task 0|missingLedger=begin"):
            judge_batch(5, parts, may_begin=may_begin)
    with pytest.raises(WriteRefused, match="by task 1 and not by task 0"):
        judge_batch(
            0, [part(0, TaskOutcome.OPEN), part(1, TaskOutcome.OTHER, THIS)], may_begin=False
        )


def test_what_a_crash_has_left_out_is_committed_and_the_rest_left_alone() -> None:
    """The driver died while it committed one task after the other."""
    parts = [
        part(0, TaskOutcome.SAME, THIS._replace(task_count=3)),
        part(1, TaskOutcome.OPEN, LAST),
        part(2, TaskOutcome.SAME, THIS),
    ]

    assert judge_batch(5, parts, may_begin=False) == CommitDecision(rest=(1,))


def test_a_batch_that_is_written_needs_nothing() -> None:
    """Spark died after the sink had committed and before it noted that."""
    parts = [part(number, TaskOutcome.SAME, THIS) for number in range(2)]

    assert judge_batch(5, parts, may_begin=False) == CommitDecision()


def test_other_rows_than_before_are_refused_as_nondeterminism() -> None:
    """Committed rows cannot be taken back, and rows that moved to that task would be lost."""
    parts = [part(0, TaskOutcome.SAME, THIS), part(1, TaskOutcome.OTHER, THIS)]

    with pytest.raises(WriteRefused, match=r"task 1 .* nondeterministic"):
        judge_batch(5, parts, may_begin=False)


def test_another_number_of_tasks_is_refused_while_some_of_the_others_are_missing() -> None:
    """Tasks of another number have other rows, some of which are committed."""
    parts = [part(0, TaskOutcome.OTHER, THIS), part(1, TaskOutcome.OPEN), part(2, TaskOutcome.OPEN)]

    verdict = judge_batch(5, parts, may_begin=False)
    assert verdict == CommitDecision(foreign_count=2)
    with pytest.raises(WriteRefused, match="by 2 tasks and is now written by 3"):
        judge_foreign(5, parts, {0: THIS, 1: LAST})


def test_another_number_of_tasks_finds_everything_written() -> None:
    """A batch that is complete needs no write, whichever number of tasks wrote it."""
    parts = [
        part(0, TaskOutcome.OTHER, THIS),
        part(1, TaskOutcome.OPEN),
        part(2, TaskOutcome.OPEN, rows=0),
    ]

    judge_foreign(5, parts, {0: THIS, 1: THIS})
    with pytest.raises(WriteRefused, match="with 20 rows and has 30 now"):
        judge_foreign(5, [part(n, TaskOutcome.OTHER) for n in range(3)], {0: THIS, 1: THIS})


def test_a_missing_task_is_our_own_mistake() -> None:
    """To commit without it would lose its rows."""
    with pytest.raises(AssertionError, match="missing"):
        judge_batch(0, [part(1, TaskOutcome.OPEN)], may_begin=False)

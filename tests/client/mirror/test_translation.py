"""Where records of a source are on the target: what notes say, and which of them are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla import TopicPartition
from ottla.client.mirror.translation import (
    Jotter,
    Notes,
    OffsetNote,
    Run,
    note_key,
    note_value,
    read_note,
    slot_of,
)

WHERE = TopicPartition("orders", 2)


def note(number: int, run: Run) -> OffsetNote:
    return OffsetNote("west", "cluster", WHERE, "west.orders", number, run)


def test_an_offset_within_a_run_is_found_exactly() -> None:
    """A group that continues there reads the very next record."""
    notes = Notes([note(1, Run(100, 200, 1_000, 1_100))])

    assert notes.find(WHERE, 150) == ("west.orders", 1_050)


def test_an_offset_behind_all_runs_is_the_end_of_the_last() -> None:
    """Later records are copied behind it."""
    notes = Notes([note(1, Run(0, 10, 0, 10))])

    assert notes.find(WHERE, 500) == ("west.orders", 10)


def test_an_offset_before_all_notes_is_not_guessed() -> None:
    """A guess would leave records out."""
    assert Notes([note(1, Run(50, 60, 5, 15))]).find(WHERE, 49) is None
    assert Notes().find(WHERE, 0) is None


def test_a_run_with_holes_gives_its_beginning() -> None:
    """Compaction leaves offsets without records; a little too early is never too late."""
    run = Run(0, 100, 0, 40)

    assert [run.translate(offset) for offset in (0, 99, 100)] == [0, 0, 40]


def test_what_was_copied_twice_is_found_where_it_is_second() -> None:
    """A consumer that starts at the first copy reads all records twice."""
    notes = Notes([note(1, Run(0, 100, 0, 100)), note(2, Run(90, 150, 100, 160))])

    assert notes.find(WHERE, 95) == ("west.orders", 105)
    assert notes.find(WHERE, 89) == ("west.orders", 89)


def test_notes_survive_the_way_through_a_topic() -> None:
    """Other versions and other programs read the notes."""
    one = note(12, Run(1, 2, 3, 4))

    assert read_note(note_key(one), note_value(one)) == one


def test_what_is_no_note_is_passed_over() -> None:
    """A foreign record in the notes topic must not end a mirror."""
    one = note(1, Run(0, 1, 0, 1))

    assert read_note(b"key", b"value") is None
    assert read_note(note_key(one), None) is None
    assert read_note(note_key(one), b"[]") is None
    assert read_note(note_key(one), note_value(note(2, one.run))) is None


def test_runs_that_touch_become_one_note() -> None:
    """Otherwise every fetch would leave a note."""
    notes = Notes()
    jotter = Jotter("west", "cluster", notes)
    jotter.copied(WHERE, "west.orders", Run(0, 10, 0, 10))
    jotter.written()
    jotter.copied(WHERE, "west.orders", Run(10, 20, 10, 20))

    assert jotter.due() == [note(1, Run(0, 20, 0, 20))]


def test_an_extension_that_was_never_written_does_not_cost_the_note_before_it() -> None:
    """The older note would be replaced by one that begins later, and lookups lose what it told."""
    notes = Notes()
    jotter = Jotter("west", "cluster", notes)
    jotter.copied(WHERE, "west.orders", Run(0, 10, 0, 10))
    jotter.written()
    jotter.copied(WHERE, "west.orders", Run(10, 20, 10, 20))
    jotter.copied(WHERE, "west.orders", Run(20, 30, 25, 35))
    jotter.written()

    assert notes.find(WHERE, 5) == ("west.orders", 5)
    assert notes.find(WHERE, 25) == ("west.orders", 30)


def test_notes_stay_few_and_thin_out_backwards() -> None:
    """A topic that is read whole at every start has to stay small."""
    notes = Notes(
        note(number, Run(number, number + 1, 2 * number, 2 * number + 1))
        for number in range(1, 1_001)
    )

    assert len({slot_of(number) for number in range(1, 1_001)}) < 64
    assert [notes.find(WHERE, offset) for offset in range(993, 1_001)] == [
        ("west.orders", 2 * offset) for offset in range(993, 1_001)
    ]
    found = notes.find(WHERE, 600)
    assert found is not None
    assert 1_100 < found[1] <= 1_200


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.booleans()), max_size=40),
    st.data(),
)
def test_nothing_is_ever_missing_behind_a_translated_offset(
    steps: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    """The one promise: a group that continues there misses no record, however notes were lost."""
    notes = Notes()
    jotter = Jotter("west", "cluster", notes)
    # The target offset of the last copy of each source offset.
    copies: dict[int, int] = {}
    source = target = 0
    for count, gap, is_written in steps:
        target += gap
        run = Run(source, source + count, target, target + count)
        copies.update(
            zip(range(run.start, run.end), range(run.target_start, run.target_end), strict=False)
        )
        jotter.copied(WHERE, "west.orders", run)
        if is_written:
            jotter.written()
        source, target = run.end, run.target_end

    offset = data.draw(st.integers(0, source))
    found = notes.find(WHERE, offset)

    if found is not None:
        assert all(found[1] <= copies[later] for later in range(offset, source))

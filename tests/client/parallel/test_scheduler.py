"""Many records in work at once."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from ottla.client.parallel.done_offsets import decode_done
from ottla.client.parallel.scheduler import Lanes, Ordering, QueuedRecord
from ottla.client.records.committed import Committed
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def lanes(records: Iterable[str], ordering: Ordering = "key", window_max: int = 100) -> Lanes[str]:
    """Partition 0 with these records: the key is the first letter, or nothing for a dash."""
    made: Lanes[str] = Lanes(ordering, window_max)
    made.assign(P0, None)
    for offset, record in enumerate(records):
        made.take(P0, offset, None if record[0] == "-" else record[0], record)
    return made


def begun(made: Lanes[str], now_ms: float = 0) -> list[QueuedRecord[str]]:
    """Everything that may begin now."""
    found = []
    while (work := made.start(now_ms)) is not None:
        found.append(work)
    return found


def items(works: Iterable[QueuedRecord[str]]) -> list[str]:
    return [work.item for work in works]


@pytest.mark.parametrize(
    ("ordering", "first"),
    [
        ("key", ["a1", "b1", "-1", "-2"]),
        ("partition", ["a1"]),
        ("none", ["a1", "b1", "a2", "-1", "-2", "b2"]),
    ],
)
def test_the_ordering_says_what_may_be_in_work_at_once(
    ordering: Ordering, first: list[str]
) -> None:
    """A record without a key is in no order, unless it is that of the partition."""
    made = lanes(["a1", "b1", "a2", "-1", "-2", "b2"], ordering)

    assert items(begun(made)) == first


def test_the_next_of_a_key_begins_when_the_one_before_is_done() -> None:
    """The end of another key's record does not start it."""
    made = lanes(["a1", "b1", "a2", "b2"])
    a1, b1 = begun(made)

    made.finish(b1)
    assert items(begun(made)) == ["b2"]
    made.finish(a1)
    assert items(begun(made)) == ["a2"]


def test_the_same_key_in_two_partitions_is_two_keys() -> None:
    """There is no order between partitions to keep."""
    made = lanes(["a1"])
    made.take(P1, 0, "a", "a of the other")

    assert items(begun(made)) == ["a1", "a of the other"]


def test_the_position_stays_before_the_first_record_that_is_not_done() -> None:
    """Records done after it are noted in the metadata, for the next owner of the partition."""
    made = lanes(["a1", "b1", "c1", "d1"])
    a1, b1, c1, _d1 = begun(made)
    made.finish(b1)
    made.finish(c1)
    (position,) = made.to_commit().values()
    assert position.offset == 0
    assert decode_done(0, position.metadata) == {1, 2}

    made.finish(a1)

    assert made.to_commit() == {P0: Committed(3)}
    assert made.to_commit() == {}, "it is told once"
    made.uncommit([P0])
    assert made.to_commit() == {P0: Committed(3)}


def test_gaps_between_offsets_hold_nothing_up() -> None:
    """Compaction and transactions leave them."""
    made = lanes([])
    made.take(P0, 5, "a", "a1")
    made.take(P0, 90, "b", "b1")
    for work in begun(made):
        made.finish(work)

    assert made.to_commit() == {P0: Committed(91)}


def test_what_an_earlier_life_has_done_is_not_done_again() -> None:
    """Neither now nor, if this life ends soon, in the next."""
    before = lanes(["a1", "b1", "c1", "d1", "e1"])
    works = begun(before)
    for work in (works[1], works[4]):
        before.finish(work)
    (left,) = before.to_commit().values()

    after = Lanes[str]("key", 100)
    after.assign(P0, left)
    for offset in range(2):
        after.take(P0, offset, offset, f"again {offset}")
    (work,) = begun(after)
    assert work.item == "again 0"
    after.finish(work)

    (position,) = after.to_commit().values()
    assert position.offset == 2
    assert decode_done(2, position.metadata) == {4}


def test_who_goes_back_sees_everything_again() -> None:
    """Before the first record, and later, when it was read on already."""
    made = Lanes[str]("none", 100)
    made.assign(P0, Committed(5, metadata=lanes_done(5, 6)))
    made.take(P0, 0, None, "x")
    made.take(P0, 6, None, "y")
    assert items(begun(made)) == ["x", "y"]

    made.take(P0, 0, None, "x again")
    assert items(begun(made)) == ["x again"]
    assert made.positions() == {P0: 0}


def lanes_done(position: int, *offsets: int) -> str:
    made = Lanes[str]("none", 100)
    for offset in (position, *offsets):
        made.take(P0, offset, None, str(offset))
    for work in begun(made)[1:]:
        made.finish(work)
    (committed,) = made.to_commit().values()
    return committed.metadata


def test_a_failed_record_keeps_its_lane_until_it_is_tried_again() -> None:
    """The next of its key must not overtake it."""
    made = lanes(["a1", "a2", "b1"])
    a1, b1 = begun(made)
    made.retry(a1, at_ms=50)
    made.finish(b1)

    assert begun(made, now_ms=49) == []
    assert made.next_ms == 50
    assert begun(made, now_ms=50) == [a1]
    assert a1.failures == 1
    assert made.next_ms is None


def test_a_partition_is_paused_while_its_window_is_full() -> None:
    """One key that does not get on must not let memory and repetitions grow without limit."""
    made = lanes(["a1", "b1", "c1", "d1"], window_max=4)
    works = begun(made)
    assert made.turn_taps() == ([P0], [])
    made.finish(works[1])
    made.finish(works[2])
    assert not made.has_room(works[2])

    made.finish(works[0])

    assert made.has_room(works[0])
    assert made.turn_taps() == ([], [P0])
    assert made.turn_taps() == ([], [])


def test_nothing_more_begins_of_what_is_given_up() -> None:
    """Records in progress may end and count until the partition is gone."""
    made = lanes(["a1", "a2", "b1", "c1"])
    a1, b1, c1 = begun(made)
    made.retry(c1, at_ms=0)
    made.take(P1, 0, "z", "z1")
    made.give_up([P0])
    assert items(begun(made)) == ["z1"]
    assert made.running([P0]) == [a1, b1]

    made.finish(a1)
    made.retry(b1, at_ms=0)

    assert begun(made, now_ms=1) == []
    assert made.to_commit()[P0].offset == 1
    made.forget([P0])
    assert P0 not in made.to_commit()


def test_a_record_that_was_ended_is_not_done() -> None:
    """The position stays before it, and the next record of its key can begin."""
    made = lanes(["a1", "a2"])
    (a1,) = begun(made)
    made.drop(a1)

    assert items(begun(made)) == ["a2"]
    assert made.to_commit() == {P0: Committed(0)}


class Story:
    """Lives of one reader, each ending in a crash, and what it has stored and done so far."""

    def __init__(self, seed: int, ordering: Ordering) -> None:
        self.random = Random(seed)
        self.ordering = ordering
        # Some offsets are missing, as after compaction.
        self.log = [offset for offset in range(160) if self.random.random() < 0.9]
        self.keys = {offset: self.random.choice("abcdef") for offset in self.log}
        self.stored: Committed | None = None
        self.done: list[int] = []
        # Done in a life that has stored its positions after that.
        self.safe: set[int] = set()
        self.window_max = self.random.randint(3, 30)

    def live(self) -> None:
        """One life: read, work on, fail, store, in any order; then it is over, at any moment."""
        made = Lanes[int](self.ordering, self.window_max)
        made.assign(P0, self.stored)
        start = 0 if self.stored is None else self.stored.offset
        repeatable = self._repeatable()
        coming = [offset for offset in self.log if offset >= start][::-1]
        running: list[QueuedRecord[int]] = []
        is_paused = False
        mine: list[int] = []
        for now_ms in range(self.random.randint(5, 200)):
            match self.random.choice(["read", "read", "start", "start", "end", "end", "store"]):
                case "read" if coming and not is_paused:
                    offset = coming.pop()
                    made.take(P0, offset, self.keys[offset], offset)
                case "start" if (work := made.start(now_ms)) is not None:
                    running.append(work)
                case "end" if running:
                    work = running.pop(self.random.randrange(len(running)))
                    if self.random.random() < 0.2:
                        made.retry(work, now_ms + self.random.randint(1, 9))
                    else:
                        self._finish(work, mine, repeatable)
                        made.finish(work)
                case "store":
                    self.stored = made.to_commit().get(P0, self.stored)
                    self.safe.update(mine)
            full, free = made.turn_taps()
            is_paused = (is_paused or bool(full)) and not free
            assert len({work.lane for work in running if work.lane}) == len(
                [work for work in running if work.lane]
            ), "two of one lane at once"

    def _repeatable(self) -> set[int]:
        """Records that may be repeated in this life: all that the stored position does not
        cover."""
        if self.stored is None:
            return set(self.log)
        covered = decode_done(self.stored.offset, self.stored.metadata)
        return {one for one in self.log if one >= self.stored.offset and one not in covered}

    def _finish(self, work: QueuedRecord[int], mine: list[int], repeatable: set[int]) -> None:
        offset = work.item
        assert offset in repeatable, "it was stored as done"
        assert offset not in mine, "twice in one life"
        if self.ordering == "key":
            same = [one for one in mine if self.keys[one] == self.keys[offset]]
            assert not same or same[-1] < offset, "a key out of order"
        if self.ordering == "partition":
            assert not mine or mine[-1] < offset, "a partition out of order"
        mine.append(offset)
        self.done.append(offset)

    @property
    def repeated(self) -> set[int]:
        """Records that the next life repeats although they were done and stored."""
        return self._repeatable() & self.safe

    @property
    def skipped(self) -> set[int]:
        """Records that the stored position covers although they were never done."""
        return set(self.log) - self._repeatable() - set(self.done)


@pytest.mark.parametrize("ordering", ["key", "partition", "none"])
def test_no_life_and_no_crash_skips_a_record_or_breaks_an_order(ordering: Ordering) -> None:
    """At least once, in order per key; only records not stored as done are repeated."""
    for seed in range(150):
        story = Story(seed, ordering)
        for _ in range(5):
            story.live()
            assert story.skipped == set(), f"seed {seed}"
            assert story.repeated == set(), f"seed {seed}"

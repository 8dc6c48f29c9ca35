"""Planning the next offsets of a query, as pure functions."""

from __future__ import annotations

import json

import pytest

from ottla.client.ranges import OffsetRange
from ottla.client.spark.offsets import Bound, Offsets, QueryOffsets
from ottla.client.spark.plan import (
    Limits,
    advanced,
    check_named,
    cut,
    end_of,
    new_at,
    ranges_between,
    ranges_of,
    split,
    start_of,
    starts_of,
)
from ottla.protocol.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LIMITS = Limits({A0: 10, A1: 0}, {A0: 20, A1: 5})
IDS = {"a": "id of a"}


def place(offsets: Offsets, begins: Offsets | None = None, **ids: str) -> QueryOffsets:
    """A query's position in topics with these ids."""
    return QueryOffsets(offsets, begins or {}, ids or IDS, "query")


def limits(**ends: int) -> Limits:
    """``a0=5``: a partition that ends there and begins at 0."""
    lasts = {TopicPartition(name[0], int(name[1:])): end for name, end in ends.items()}
    return Limits(dict.fromkeys(lasts, 0), lasts)


# Where to begin and to end.


def test_the_ends_of_a_log_and_offsets_say_where_to_begin() -> None:
    """As in Kafka, -2 and -1 among offsets mean the two ends of the log."""
    late = {"late_is_latest": False}

    assert start_of(Bound("o", time=-2), LIMITS, {}, **late).offsets == {A0: 10, A1: 0}
    assert start_of(Bound("o", time=-1), LIMITS, {}, **late).offsets == {A0: 20, A1: 5}
    named = Bound("o", offsets={A0: -2, A1: -1})
    assert start_of(named, LIMITS, {}, **late) == ({A0: 10, A1: 5}, [])
    assert start_of(Bound("o", offsets={A0: 12, A1: 5}), LIMITS, {}, **late).offsets == {
        A0: 12,
        A1: 5,
    }


@pytest.mark.requirement("CON-25")
def test_a_time_is_the_first_record_that_is_not_before_it() -> None:
    """A load is repeated from a point in time; where nothing is that late the user decides."""
    bound = Bound("startingTimestamp", time=1_000)

    assert bound.time_of(A0) == 1_000
    assert Bound("o", time=-1).time_of(A0) is None
    assert Bound("o", times={A0: 7}).time_of(A0) == 7
    found = {A0: 15, A1: -1}
    assert start_of(bound, LIMITS, found, late_is_latest=True).offsets == {A0: 15, A1: 5}
    assert end_of(bound, LIMITS, found).offsets == {A0: 15, A1: 5}
    with pytest.raises(ValueError, match="partition 1 has no record as late as the option startin"):
        start_of(bound, LIMITS, found, late_is_latest=False)


@pytest.mark.parametrize("offset", [9, 21])
def test_an_offset_outside_of_the_log_is_a_loss_that_names_the_option(offset: int) -> None:
    """With failOnDataLoss=false the offset is moved into the log."""
    bound = Bound("startingOffsets", offsets={A0: offset, A1: 0})

    offsets, losses = start_of(bound, LIMITS, {}, late_is_latest=False)

    assert offsets[A0] == min(max(offset, 10), 20)
    assert losses == [
        f"the option startingOffsets names offset {offset} of topic 'a' partition 0, which has "
        "the offsets 10 to 20 only"
    ]


def test_offsets_are_given_for_all_partitions_or_none() -> None:
    """A partition that is left out would begin at an offset that the user has not chosen."""
    bound = Bound("startingOffsets", offsets={A0: 1, A1: 1})

    check_named(bound, [A0, A1])
    check_named(Bound("startingOffsets", time=-1), [A0, A1])
    with pytest.raises(
        ValueError, match=r"startingOffsets has to .* topic 'b' partition 0 is missing"
    ):
        check_named(bound, [A0, A1, B0])
    with pytest.raises(ValueError, match="topic 'a' partition 1 is not among them"):
        check_named(bound, [A0])
    with pytest.raises(ValueError, match="topic 'a' partition 1 is not among them"):
        check_named(Bound("o", times={A0: 1, A1: 1}), [A0])


def test_a_start_beyond_the_end_is_an_error() -> None:
    """Spark would count a negative number of rows, or none, and say nothing."""
    assert ranges_between({A0: 3}, {A0: 3}) == [OffsetRange(A0, 3, 3)]
    with pytest.raises(ValueError, match="partition 0 would be read from offset 4 to 3: the start"):
        ranges_between({A0: 4}, {A0: 3})


# What each task reads.


@pytest.mark.requirement("OPS-07")
def test_a_partition_is_one_task_unless_more_is_asked_for() -> None:
    """More tasks than partitions have something to do only when partitions are split."""
    ranges = [OffsetRange(A0, 0, 100), OffsetRange(A1, 0, 0), OffsetRange(B0, 7, 57)]

    assert split(ranges, None, None) == [OffsetRange(A0, 0, 100), OffsetRange(B0, 7, 57)]
    assert split(ranges, 1, None) == [OffsetRange(A0, 0, 100), OffsetRange(B0, 7, 57)]
    assert split(ranges, 3, None) == [
        OffsetRange(A0, 0, 50),
        OffsetRange(A0, 50, 100),
        OffsetRange(B0, 7, 57),
    ]


@pytest.mark.parametrize(("least", "most"), [(5, None), (None, 40), (17, 13), (400, None), (3, 1)])
def test_the_tasks_together_read_everything_once(least: int | None, most: int | None) -> None:
    """The tasks cover each offset exactly once, for any number of tasks."""
    ranges = [OffsetRange(A0, 10, 110), OffsetRange(A1, 5, 6), OffsetRange(B0, 7, 57)]

    tasks = split(ranges, least, most)

    read = [(one.partition, offset) for one in tasks for offset in range(one.start, one.stop)]
    assert read == [(one.partition, n) for one in ranges for n in range(one.start, one.stop)]
    assert all(one.start < one.stop for one in tasks)
    assert len(tasks) >= min(least or 0, 151)
    assert most is None or max(one.stop - one.start for one in tasks) <= most


@pytest.mark.timeout(20)
def test_many_tasks_are_planned_in_no_time() -> None:
    """The driver plans every micro-batch; repeated searches for the longest range took minutes."""
    ranges = [OffsetRange(TopicPartition("a", number), 0, 1_000_000) for number in range(4_000)]

    assert len(split(ranges, 40_000, None)) == 40_000


# A stream.


def test_a_place_survives_the_checkpoint() -> None:
    """Spark turns the keys into text, and compares text: equal places are equal text."""
    somewhere = place({A1: 5, A0: 10, B0: 3}, {B0: 0}, a="x", b="y")
    text = json.dumps(somewhere.as_json())

    again = QueryOffsets.from_json(json.loads(text))

    assert again == somewhere
    assert json.dumps(again.as_json()) == text
    assert json.loads(text)["a"] == {"0": 10, "1": 5}


def test_a_batch_goes_on_where_the_last_one_ended() -> None:
    """With what there is by now."""
    end, losses = advanced(place({A0: 5, A1: 7}), limits(a0=9, a1=7), IDS)

    assert losses == []
    assert end.offsets == {A0: 9, A1: 7}
    assert ranges_of(place({A0: 5, A1: 7}), end) == [OffsetRange(A0, 5, 9), OffsetRange(A1, 7, 7)]


def test_a_new_partition_is_read_from_its_beginning_and_again_from_there() -> None:
    """Its start is nowhere in the checkpoint but with the end of its first batch."""
    start = place({A0: 5})
    end, losses = advanced(start, limits(a0=9, a1=3), IDS)
    after, _ = advanced(end, limits(a0=9, a1=8), IDS)

    assert losses == []
    assert new_at(start, [A0, A1], IDS) == [A1]
    assert starts_of(start, end) == {A0: 5, A1: 0}
    assert starts_of(end, after) == {A0: 9, A1: 3}


def test_the_first_batch_is_repeated_from_where_it_began() -> None:
    """The start that Spark asks for after a crash is another one when the topic has grown; with
    it the records between would be lost."""
    first = QueryOffsets({A0: 100}, {A0: 100}, IDS, "query")
    end, _ = advanced(first, limits(a0=110), IDS)

    again = QueryOffsets({A0: 125}, {A0: 125}, IDS, "another")

    assert ranges_of(first, end) == [OffsetRange(A0, 100, 110)]
    assert ranges_of(again, end) == [OffsetRange(A0, 100, 110)]


def test_what_is_gone_is_a_loss() -> None:
    """Each loss is one sentence, and the query can continue with what is left."""
    start = place({A0: 5, A1: 7, B0: 4}, a="1", b="2")
    end, losses = advanced(start, limits(a0=9, a1=6), {"a": "1"})

    assert losses == [
        "topic 'b' partition 0 does not exist any more",
        "topic 'a' partition 1 ends at offset 6, and the query had come to 7",
    ]
    assert ranges_of(start, end) == [OffsetRange(A0, 5, 9), OffsetRange(A1, 6, 6)]


def test_a_topic_of_the_same_name_is_another_topic() -> None:
    """Its offsets mean other records, also where it has grown beyond the place already."""
    start = place({A0: 5}, a="old")
    end, losses = advanced(start, limits(a0=50), {"a": "new"})

    assert losses == ["topic 'a' was deleted and created again"]
    assert ranges_of(start, end) == [OffsetRange(A0, 0, 50)]
    # Older clusters have no ids.
    assert advanced(place({A0: 5}, a="old"), limits(a0=50), {"a": ""})[1] == []


def test_a_new_partition_that_has_lost_its_beginning_is_a_loss() -> None:
    """Retention was faster than the query."""
    _, losses = advanced(place({A0: 5}), Limits({A1: 3}, {A0: 5, A1: 9}), IDS)

    assert losses == ["topic 'a' partition 1 is new and begins at offset 3 only"]


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 99, 100, 1_000])
def test_a_limit_is_shared_out_in_proportion(limit: int) -> None:
    """No partition with records starves."""
    start = place({A0: 0, A1: 0, B0: 5})
    end, _ = advanced(start, limits(a0=90, a1=10, b0=5), IDS)

    parts = cut(start, end, limit)

    taken = {where: parts.offsets[where] - start.offsets[where] for where in start.offsets}
    assert sum(taken.values()) <= max(limit, 2)
    assert taken[B0] == 0
    assert 1 <= taken[A1] <= taken[A0]
    assert sum(taken.values()) >= min(limit, 100) - 2


def test_cut_batches_come_to_the_end() -> None:
    """The batches follow each other without a gap."""
    here = place({A0: 0, A1: 3})
    seen: list[OffsetRange] = []
    for _ in range(100):
        end, _ = advanced(here, limits(a0=31, a1=5), IDS)
        if end.offsets == here.offsets:
            break
        end = cut(here, end, 7)
        seen += split(ranges_of(here, end), None, None)
        here = end

    assert seen[0] == OffsetRange(A0, 0, 6)
    for where, first, last in ((A0, 0, 31), (A1, 3, 5)):
        own = [one for one in seen if one.partition == where]
        assert [one.stop for one in own[:-1]] == [one.start for one in own[1:]]
        assert (own[0].start, own[-1].stop) == (first, last)


def test_a_batch_never_goes_backwards() -> None:
    """Spark does not look, and would do so for ever."""
    with pytest.raises(ValueError, match="the start lies beyond the end"):
        ranges_of(place({A0: 9}), place({A0: 5}))

"""Anchors find the place from where records have to be read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.wire07.positions import (
    TOLD_BYTES_MAX,
    Anchor,
    Anchors,
    beyond_all_told,
)
from ottla.broker.wire07.stored import build_anchors, parse_anchors

# The last two records are markers of transactions, which take no bytes.
SOME = [Anchor(0, 0), Anchor(10, 100), Anchor(20, 250), Anchor(22, 250)]


def test_the_nearest_anchor_is_found_by_offset_and_by_position() -> None:
    """What lies behind it up to the goal has to be read, so it should be the last one before."""
    anchors = Anchors(SOME)

    assert [anchors.before_offset(one) for one in (-1, 0, 9, 10, 99)] == [
        *(None, SOME[0], SOME[0], SOME[1], SOME[3]),
    ]
    assert [anchors.from_offset(one) for one in (0, 1, 22, 23)] == [
        *(SOME[0], SOME[1], SOME[3], None),
    ]
    assert [anchors.before_position(one) for one in (-1, 99, 100, 250)] == [
        *(None, SOME[0], SOME[1], SOME[3]),
    ]
    assert (anchors.last, Anchors().last) == (SOME[3], None)


def test_anchors_closer_than_a_step_are_not_kept() -> None:
    """A consumer that reads message by message would otherwise fill the memory."""
    anchors = Anchors(SOME)

    assert not anchors.add(Anchor(10, 100))
    assert not anchors.add(Anchor(12, 149), 50)
    assert anchors.add(Anchor(13, 150), 50)
    assert list(anchors) == [*SOME[:2], Anchor(13, 150), *SOME[2:]]


def test_what_retention_or_a_cut_has_removed_is_forgotten() -> None:
    """An anchor there would be read from, and nothing is there."""
    anchors = Anchors(SOME)
    anchors.forget_before(10)
    anchors.forget_behind(20)

    assert list(anchors) == SOME[1:3]


@given(st.integers(0, 50), st.integers(2, 20))
def test_thinning_out_keeps_both_ends(count: int, count_max: int) -> None:
    """The first one belongs to the log's start, and the last one bounds what was told."""
    made = [Anchor(one, one * 9) for one in range(count)]
    anchors = Anchors(made)
    anchors.thin_out(count_max)

    kept = list(anchors)
    assert kept[:1] + kept[-1:] == made[:1] + made[-1:]
    assert len(kept) == count if count <= count_max else len(kept) < count


def test_a_log_of_which_nothing_known_is_left_goes_on_behind_every_told_position() -> None:
    """A consumer must learn that its offset is out of range, and not read another message."""
    found = beyond_all_told(Anchor(22, 250), 500)

    assert found == Anchor(500, 250 + TOLD_BYTES_MAX)


def test_the_znode_of_another_topic_of_that_name_says_nothing() -> None:
    """The positions of a deleted topic mean nothing in the new one."""
    data = build_anchors(SOME, "id")

    assert parse_anchors(data, "id") == SOME
    assert parse_anchors(data, "other") == []
    assert parse_anchors(b"?", "id") == []
    assert parse_anchors(b'{"topic_id":"id","anchors":[[1]]}', "id") == []

"""A consumer's positions in its partitions."""

from __future__ import annotations

from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, Positions
from ottla.protocol.ids import TopicPartition

FIRST = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)


def assigned(*partitions: TopicPartition) -> Positions:
    """Positions with an assignment."""
    positions = Positions(100, 1000)
    positions.assign(partitions or (FIRST,))
    return positions


def test_a_partition_without_position_has_to_be_looked_up_first() -> None:
    """Fetching from offset 0 by default would replay everything."""
    positions = assigned()
    assert positions.without_position() == [FIRST]
    assert not positions.fetchable(FIRST, 0)

    positions.seek_timestamp(FIRST, EARLIEST_TIMESTAMP)
    assert positions.without_position() == []
    assert positions.to_look_up(0) == {FIRST: EARLIEST_TIMESTAMP}

    assert positions.looked_up(FIRST, positions[FIRST].turn, 42)
    assert positions[FIRST].offset == positions[FIRST].fetch_offset == 42
    assert positions.fetchable(FIRST, 0)
    assert positions.to_look_up(0) == {}


def test_a_look_up_of_a_place_that_was_left_is_dropped() -> None:
    """The application has sought elsewhere while the broker was asked."""
    positions = assigned()
    positions.seek_timestamp(FIRST, EARLIEST_TIMESTAMP)
    turn = positions[FIRST].turn
    positions.seek(FIRST, 7)

    assert not positions.looked_up(FIRST, turn, 0)
    assert positions[FIRST].offset == 7


def test_every_jump_and_every_new_assignment_is_another_turn() -> None:
    """Answers carry the turn in which they were asked for; a repeated one would let an old
    answer in."""
    positions = assigned()
    turns = [positions[FIRST].turn]
    for _ in range(3):
        positions.seek(FIRST, 5)
        turns.append(positions[FIRST].turn)
    positions.assign([])
    positions.assign([FIRST])
    turns.append(positions[FIRST].turn)

    assert len(set(turns)) == len(turns)


def test_partitions_that_stay_assigned_keep_their_position() -> None:
    """Adding a partition must not replay the others."""
    positions = assigned()
    positions.seek(FIRST, 5)

    positions.assign([SECOND, FIRST])

    assert positions[FIRST].offset == 5
    assert positions[SECOND].offset is None


def test_two_fetches_are_kept_ready_and_no_third() -> None:
    """One fetch is read while the next is fetched; a third would only take memory."""
    positions = assigned()
    positions.seek(FIRST, 0)
    positions.fetched(FIRST, 10)
    assert positions.fetchable(FIRST, 0)

    positions.fetched(FIRST, 20)
    assert positions.is_full(FIRST)
    assert not positions.fetchable(FIRST, 0)

    positions.read_to(FIRST, 10)
    positions.fetch_done(FIRST)
    assert positions.fetchable(FIRST, 0)
    assert (positions[FIRST].offset, positions[FIRST].fetch_offset) == (10, 20)


def test_a_paused_partition_is_neither_fetched_nor_in_the_way() -> None:
    """A paused partition must not hold up the others of its broker."""
    positions = assigned()
    positions.seek(FIRST, 0)
    positions.fetched(FIRST, 10)
    positions.fetched(FIRST, 20)
    positions[FIRST].is_paused = True

    assert not positions.is_full(FIRST)
    assert not positions.fetchable(FIRST, 0)


def test_the_limit_doubles_until_a_batch_fits() -> None:
    """A batch of five times the limit comes with the third doubling."""
    positions = assigned()
    positions.seek(FIRST, 0)
    grown = []
    while positions.grow_limit(FIRST):
        grown.append(positions[FIRST].limit_bytes)

    assert grown == [200, 400, 800, 1000]
    positions.fetched(FIRST, 1)
    assert positions[FIRST].limit_bytes == 100


def test_a_held_partition_waits_for_a_seek() -> None:
    """Without a reset policy, asking again can only be refused again."""
    positions = assigned()
    positions[FIRST].hold()
    assert positions.without_position() == []
    assert not positions.fetchable(FIRST, 0)

    positions.seek(FIRST, 3)

    assert positions.fetchable(FIRST, 0)


def test_a_partition_that_failed_is_left_alone_for_a_while() -> None:
    """The timer reports when the pause is over."""
    positions = assigned()
    positions.seek(FIRST, 0)
    positions.delay(FIRST, 50)

    assert not positions.fetchable(FIRST, 49)
    assert positions.next_delay_ms(49) == 50
    assert positions.fetchable(FIRST, 50)
    assert positions.next_delay_ms(50) is None


def test_a_partition_that_was_fetched_is_last_in_turn() -> None:
    """Brokers fill an answer in the order of the request."""
    positions = assigned(FIRST, SECOND)
    positions.seek(FIRST, 0)
    positions.fetched(FIRST, 10)

    assert positions.partitions == [SECOND, FIRST]


def test_what_a_fetch_asks_for_is_shared_out_among_the_partitions() -> None:
    """Large fetches cost less for each record, and all together must fit into memory."""
    positions = Positions(None, 256 << 20)
    found = []
    for count in (1, 4, 8, 64):
        partitions = [TopicPartition("t", number) for number in range(count)]
        positions.assign([])
        positions.assign(partitions)
        found.append(positions[partitions[0]].limit_bytes >> 20)

    assert found == [4, 4, 2, 1]
    small = Positions(None, 1000)
    small.assign([FIRST])
    assert small[FIRST].limit_bytes == 1000


def test_what_was_fetched_is_checked_once_for_each_newer_leader() -> None:
    """KIP-320: only another leader can have a different log, and a seek needs no check."""
    positions = assigned()
    positions.seek(FIRST, 0)
    assert not positions[FIRST].is_unchecked(7)

    positions.fetched(FIRST, 5, 3, 4)
    assert not positions[FIRST].is_unchecked(4)
    assert positions[FIRST].is_unchecked(5)
    positions[FIRST].checked_epoch = 5
    positions.fetched(FIRST, 8, 3, 4)
    assert not positions[FIRST].is_unchecked(5)

    positions.seek(FIRST, 2)
    assert not positions[FIRST].is_unchecked(6)


def test_what_is_put_back_is_still_checked_with_the_next_leader() -> None:
    """Otherwise a truncation in between would go unnoticed, and records would be lost."""
    positions = assigned()
    positions.seek(FIRST, 10)
    positions.fetched(FIRST, 20, epoch=3, leader_epoch=4)
    positions.read_to(FIRST, 20)

    positions.put_back(FIRST, 15)

    place = positions[FIRST]
    assert (place.offset, place.fetch_offset, place.fetch_count) == (15, 15, 0)
    assert place.is_unchecked(5)
    assert not place.is_unchecked(4)


def test_nothing_is_put_back_to_where_the_consumer_has_not_been() -> None:
    """After truncation to 12, a stale position of 15 must not take the consumer past new
    records."""
    positions = assigned()
    positions.seek(FIRST, 12)
    turn = positions[FIRST].turn

    positions.put_back(FIRST, 15)
    positions.put_back(SECOND, 15)

    assert (positions[FIRST].offset, positions[FIRST].turn) == (12, turn)


def test_an_end_that_is_heard_of_later_does_not_make_the_log_before_it_empty() -> None:
    """A lagging replica returns nothing, twice; then its leader reports the end of the log."""
    place = Positions(100, 1000)
    place.assign([FIRST])
    place.seek(FIRST, 5)
    for _ in range(3):
        place[FIRST].came_dry(5, 5)
    assert not place[FIRST].is_dry

    place[FIRST].came_dry(5, 9)
    place[FIRST].came_dry(5, 9)
    assert place[FIRST].is_dry

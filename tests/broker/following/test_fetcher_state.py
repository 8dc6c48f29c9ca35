"""Whose turn it is, who rests, and whose token is void."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.following.fetcher_state import Followed, Following, Pauses
from ottla.broker.following.steps import FetchPosition, FollowerStep, LogAction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.broker.replica.support.replicas import led_by, replica_of

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT = FollowerStep(LogAction.WAIT, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
SERVED = FollowerStep(LogAction.APPEND, has_records=True)
NOTHING_NEW = FollowerStep(LogAction.APPEND)
TOPIC_ID = b"t" * 16


def followed(index: int = 0, *, epoch: int = 3) -> Followed:
    replica = replica_of(10)
    replica.become_follower(led_by(2, epoch, isr=(1, 2)))
    return Followed(TopicPartition("t", index), TOPIC_ID, replica)


def following(*them: Followed) -> Following:
    made = Following(Pauses(20, 100))
    for one in them:
        made.add(one)
    return made


def test_a_served_partition_moves_to_the_end() -> None:
    """The leader fills its answer in order: without turns the last partitions would starve."""
    first, second, third = them = [followed(index) for index in range(3)]
    all_of_them = following(*them)
    assert all_of_them.ready(0) == [first, second, third]

    all_of_them.taken(first, SERVED, 0)
    assert all_of_them.ready(0) == [second, third, first]
    all_of_them.taken(second, NOTHING_NEW, 0)
    assert all_of_them.ready(0) == [second, third, first]


def test_with_room_for_one_every_partition_gets_its_turn() -> None:
    """A busy partition must not keep a quiet one out of the ISR."""
    them = [followed(index) for index in range(5)]
    all_of_them = following(*them)
    served = []
    for _ in range(10):
        first = all_of_them.ready(0)[0]
        served.append(first.partition.partition)
        all_of_them.taken(first, SERVED, 0)
    assert served == [0, 1, 2, 3, 4] * 2


def test_a_refusal_rests_longer_each_time_and_only_that_partition() -> None:
    """The leader may need a moment; a second of silence would cost a whole election more."""
    first, second = followed(0), followed(1)
    both = following(first, second)
    pauses = []
    now_ms = 0.0
    for _ in range(5):
        both.taken(first, WAIT, now_ms)
        assert both.ready(now_ms) == [second]
        both.changes(now_ms)
        ready_ms = both.next_ready_ms(now_ms)
        assert ready_ms is not None
        pauses.append(ready_ms - now_ms)
        now_ms = ready_ms
        assert both.ready(now_ms) == [first, second]
        both.changes(now_ms)
        assert both.next_ready_ms(now_ms) is None

    assert pauses == [20, 40, 80, 100, 100]
    both.taken(first, NOTHING_NEW, now_ms)
    both.taken(first, WAIT, now_ms)
    both.changes(now_ms)
    assert both.next_ready_ms(now_ms) == now_ms + 20


def test_a_busy_log_is_not_asked_for() -> None:
    """While it is cut, its end is nowhere."""
    one = followed()
    it = following(one)
    one.is_busy = True
    assert it.ready(0) == []
    assert it.next_ready_ms(0) is None


def test_a_log_that_is_to_be_flushed_is_not_asked_for() -> None:
    """To ask for what comes next says that all before it is stored; a failed flush is for good."""
    one = followed()
    it = following(one)
    one.awaits_flush = True
    assert it.ready(0) == []
    assert it.next_ready_ms(0) is None


def test_a_replica_in_another_epoch_is_not_asked_for_under_the_old_one() -> None:
    """Nothing could be done with the answer; the new token comes once the epoch is durable."""
    one = followed(epoch=3)
    it = following(one)
    one.replica.become_follower(led_by(2, 4, isr=(1, 2)))
    assert it.ready(0) == []
    assert it.next_ready_ms(0) is None


def test_a_new_epoch_of_the_same_leader_makes_a_new_token() -> None:
    """R-05: the leader may have been cut in an epoch that this follower has missed."""
    old, new = followed(epoch=3), followed(epoch=5)
    it = following(old)
    it.add(new)

    assert not it.holds(old)
    assert it.holds(new)
    assert list(it) == [new]


def test_an_old_token_changes_no_state() -> None:
    """R-06: neither its refusals nor its records are the new epoch's."""
    old, new, other = followed(epoch=3), followed(epoch=5), followed(1)
    it = following(old)
    it.add(new)
    it.add(other)

    it.taken(old, WAIT, 0)
    it.taken(old, SERVED, 0)
    assert it.ready(0) == [new, other]
    assert new.failure_count == 0


def test_a_partition_that_left_is_not_fetched() -> None:
    """R-07: another fetcher may have it by now."""
    one = followed()
    it = following(one)

    assert it.remove(one.partition)
    assert not it.remove(one.partition)
    assert not it.holds(one)
    assert len(it) == 0
    it.taken(one, SERVED, 0)
    assert it.get(one.partition) is None


def test_the_question_is_the_end_of_the_log_and_its_last_epoch() -> None:
    """The leader compares both (KIP-595)."""
    one = followed()
    one.replica.history.epochs.assign(2, 0)
    assert one.ask() == FetchPosition(3, 10, 2, 0)
    one.replica.on_cut(0, 7)
    assert one.ask() == FetchPosition(3, 7, 2, 0)


def told(*them: Followed) -> Following:
    """All of them as a session's last request has said."""
    it = following(*them)
    assert it.everything(0) == [(one, one.ask()) for one in them]
    return it


def test_partitions_at_rest_are_not_asked_for_one_by_one() -> None:
    """Thousands of them would cost more than all that brokers do otherwise."""
    first, second = followed(0), followed(1)
    assert [one for one, _ in following(first, second).changes(0).asked] == [first, second]
    assert told(first, second).changes(0) == ([], [])


def appended(one: Followed) -> None:
    one.replica.on_replicated(11, 11, 3)


def begins_later(one: Followed) -> None:
    one.replica.on_cut(5, 10)


def follows_another(one: Followed) -> None:
    one.replica.become_follower(led_by(3, 4, isr=(1, 3)))


def leads(one: Followed) -> None:
    one.replica.become_leader(led_by(one.replica.node_id, 4, isr=(1, 3)), 0)


def has_no_role(one: Followed) -> None:
    one.replica.resign()


@pytest.mark.parametrize(
    ("happens", "is_asked_for"),
    [
        (appended, True),
        (begins_later, True),
        (follows_another, False),
        (leads, False),
        (has_no_role, False),
    ],
)
def test_every_change_is_in_the_next_request(
    happens: Callable[[Followed], None], is_asked_for: bool
) -> None:
    """An old offset or epoch said again would count as an acknowledgement, or as a proof that the
    leader was not replaced."""
    first, second = followed(0), followed(1)
    both = told(first, second)
    happens(second)
    changes = both.changes(1.0)
    if is_asked_for:
        assert changes == ([(second, second.ask())], [])
    else:
        assert changes == ([], [second.partition])
    assert both.changes(1.0) == ([], [])


@pytest.mark.parametrize("mark", ["is_busy", "awaits_flush"])
def test_a_busy_log_leaves_the_session_until_it_is_free(mark: str) -> None:
    """The leader would go on to answer for it, and take it for caught up."""
    one = followed()
    it = told(one)
    setattr(one, mark, True)
    it.stir(one)
    assert it.changes(0) == ([], [one.partition])
    setattr(one, mark, False)
    it.stir(one)
    assert it.changes(0) == ([(one, one.ask())], [])


def test_a_partition_that_rests_is_asked_for_when_its_time_has_come() -> None:
    """Its leader may know of its election by then."""
    first, second = followed(0), followed(1)
    both = told(first, second)
    both.taken(first, WAIT, 0)
    assert both.changes(0) == ([], [first.partition])
    assert both.next_ready_ms(0) == 20
    assert both.changes(19) == ([], [])
    assert both.changes(20) == ([(first, first.ask())], [])
    assert both.next_ready_ms(20) is None


def test_a_partition_no_longer_followed_leaves_the_session() -> None:
    """Another fetcher has it by now; and a token of the new epoch is asked for."""
    one, other = followed(0), followed(1)
    it = told(one, other)
    it.remove(one.partition)
    new = followed(1, epoch=5)
    it.add(new)
    other.replica.on_cut(1, 9)
    assert it.changes(0) == ([(new, new.ask())], [one.partition])

"""Fetch sessions from the follower's side: all once, then only what differs (KIP-227)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.following.fetcher_state import Followed
from ottla.broker.following.session import Asked, Delta, FollowerFetchSession
from ottla.broker.following.steps import FetchPosition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.broker.replica.support.replicas import replica_of

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE = ErrorCode.NONE
PLACES = [TopicPartition("t", index) for index in range(5)]


def asked(index: int, offset: int = 0, topic_id: bytes = b"7" * 16) -> Asked:
    one = Followed(TopicPartition("t", index), topic_id, replica_of())
    return one, FetchPosition(3, offset, 2, 0)


def opened(*them: Asked, session_id: int = 70) -> FollowerFetchSession:
    session = FollowerFetchSession()
    assert session.first_request(them) == Delta(0, 0, them)
    session.answered(NONE, session_id)
    return session


def request_for(session: FollowerFetchSession, asked: Sequence[Asked]) -> Delta:
    """Asks for exactly these, as a fetcher does that was told of each change."""
    if not session.is_incremental:
        return session.first_request(asked)
    wanted = {one.partition for one, _ in asked}
    return session.next_request(asked, [place for place in PLACES if place not in wanted])


def test_the_first_request_says_everything_and_asks_for_a_session() -> None:
    """Session 0, epoch 0."""
    session = FollowerFetchSession()
    them = [asked(0), asked(1)]
    assert request_for(session, them) == Delta(0, 0, them)
    assert not session.is_incremental


def test_later_requests_contain_only_changes() -> None:
    """With a thousand idle partitions nearly nothing."""
    first, second = asked(0), asked(1)
    session = opened(first, second)

    assert request_for(session, [first, second]) == Delta(70, 1, [])
    session.answered(NONE, 70)
    moved = (first[0], first[1]._replace(fetch_offset=5))
    assert request_for(session, [moved, second]) == Delta(70, 2, [moved])
    session.answered(NONE, 70)
    third = asked(2)
    assert request_for(session, [moved, third]) == Delta(
        70, 3, [third], ((second[0].partition, second[0].topic_id),)
    )


def test_earlier_entries_of_a_session_stay_valid() -> None:
    """An answer may speak of a partition that its request has left out."""
    first, second = asked(0), asked(1)
    session = opened(first, second)
    request_for(session, [first])

    assert session.asked_for(first[0].partition) == first
    assert session.asked_for(second[0].partition) is None


def test_a_topic_of_the_same_name_is_another_one() -> None:
    """C-22: the leader must forget the old id, or it answers for the wrong topic."""
    old, new = asked(0, topic_id=b"1" * 16), asked(0, topic_id=b"2" * 16)
    session = opened(old)
    assert request_for(session, [new]) == Delta(
        70, 1, [new], ((old[0].partition, old[0].topic_id),)
    )


def test_a_leader_without_sessions_is_told_everything_each_time() -> None:
    """The leader declines a session with id 0."""
    them = [asked(0)]
    session = opened(*them, session_id=0)
    assert request_for(session, them) == Delta(0, 0, them)


def test_an_error_of_the_session_starts_a_new_one() -> None:
    """The leader has given it up, say for a busier one."""
    them = [asked(0)]
    for error in (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ):
        session = opened(*them)
        request_for(session, them)
        session.answered(error, 0)
        assert request_for(session, them) == Delta(0, 0, them)


def test_after_a_lost_answer_the_session_is_replaced() -> None:
    """The follower cannot know whether the leader applied the changes of that request."""
    them = [asked(0)]
    session = opened(*them)
    request_for(session, them)
    session.lost()
    assert request_for(session, them) == Delta(70, 0, them)
    session.answered(NONE, 71)
    assert request_for(session, them) == Delta(71, 1, [])


def test_epochs_of_a_session_wrap_around() -> None:
    """0 and -1 mean something else."""
    session = opened(asked(0))
    session._epoch = (1 << 31) - 1
    request_for(session, [])
    session.answered(NONE, 70)
    assert request_for(session, []).session_epoch == 1


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 4), st.integers(0, 3)),
            st.sampled_from(["answered", "lost after", "lost before", "evicted", "declined"]),
        ),
        max_size=25,
    )
)
def test_leader_and_follower_agree_on_the_session(
    rounds: list[tuple[dict[int, int], str]],
) -> None:
    """Against a leader's cache, with answers lost on either side of it."""
    tokens = {index: asked(index)[0] for index in range(5)}
    session, cache = FollowerFetchSession(), LeadersCache()
    for wanted, fate in rounds:
        request = [
            (tokens[index], FetchPosition(3, offset, 2, 0)) for index, offset in wanted.items()
        ]
        delta = request_for(session, request)
        if fate == "lost before":
            session.lost()
            continue
        if fate == "evicted":
            cache.session_id = -1
        error, session_id = cache.take(delta, declines=fate == "declined")
        if error is NONE:
            assert cache.known == {one.partition: ask for one, ask in request}
            for one, ask in request:
                assert session.asked_for(one.partition) == (one, ask)
        if fate == "lost after":
            session.lost()
        else:
            session.answered(error, session_id)


class LeadersCache:
    """A cache with one slot."""

    def __init__(self) -> None:
        self.session_id, self.epoch, self.count = -1, 0, 0
        self.known: dict[TopicPartition, FetchPosition] = {}

    def take(self, delta: Delta, *, declines: bool) -> tuple[ErrorCode, int]:
        if delta.session_epoch == 0:
            self.known = {one.partition: ask for one, ask in delta.asked}
            self.session_id = -1
            if declines:
                return NONE, 0
            self.count += 1
            self.session_id, self.epoch = self.count, 1
            return NONE, self.session_id
        if delta.session_id != self.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0
        if delta.session_epoch != self.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0
        self.epoch += 1
        for partition, _ in delta.forgotten:
            self.known.pop(partition, None)
        self.known.update({one.partition: ask for one, ask in delta.asked})
        return NONE, self.session_id


def test_a_request_that_says_the_same_names_no_partition() -> None:
    """It continues the session, in which everything was said; without one there is none."""
    them = [asked(0), asked(1)]
    session = opened(*them)
    assert session.asks_for_any
    assert session.next_request([]) == Delta(70, 1, [])
    assert session.next_request([]).says_nothing
    session.answered(NONE, 70)
    assert session.next_request([them[0]]) == Delta(70, 2, [])
    assert session.asked_for(them[1][0].partition) == them[1]
    assert not session.next_request([], [them[0][0].partition]).says_nothing
    session.next_request([], [them[1][0].partition])
    assert not session.asks_for_any


def test_a_partition_that_left_and_returned_is_not_forgotten() -> None:
    """Some leaders forget after they have taken in what is new."""
    first, moved = asked(0), asked(0, 5)
    session = opened(first)
    assert session.next_request([moved], [first[0].partition]) == Delta(70, 1, [moved])

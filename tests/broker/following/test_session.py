"""Fetch sessions from the follower's side: all once, then only what differs (KIP-227)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.following.fetcher_state import Followed
from ottla.broker.following.session import Asked, Delta, FollowerFetchSession
from ottla.broker.following.steps import FetchPosition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.broker.replica.support.replicas import replica_of

NONE = ErrorCode.NONE


def asked(index: int, offset: int = 0, topic_id: bytes = b"7" * 16) -> Asked:
    one = Followed(TopicPartition("t", index), topic_id, replica_of())
    return one, FetchPosition(3, offset, 2, 0)


def opened(*them: Asked, session_id: int = 70) -> FollowerFetchSession:
    session = FollowerFetchSession()
    assert session.next_request(them) == Delta(0, 0, them)
    session.answered(NONE, session_id)
    return session


def test_the_first_request_says_everything_and_asks_for_a_session() -> None:
    """Session 0, epoch 0."""
    session = FollowerFetchSession()
    them = [asked(0), asked(1)]
    assert session.next_request(them) == Delta(0, 0, them)
    assert not session.is_incremental


def test_later_requests_say_what_has_changed() -> None:
    """With a thousand idle partitions nearly nothing."""
    first, second = asked(0), asked(1)
    session = opened(first, second)

    assert session.next_request([first, second]) == Delta(70, 1, [])
    session.answered(NONE, 70)
    moved = (first[0], first[1]._replace(fetch_offset=5))
    assert session.next_request([moved, second]) == Delta(70, 2, [moved])
    session.answered(NONE, 70)
    third = asked(2)
    assert session.next_request([moved, third]) == Delta(
        70, 3, [third], ((second[0].partition, second[0].topic_id),)
    )


def test_what_was_asked_earlier_is_still_asked() -> None:
    """An answer may speak of a partition that its request has left out."""
    first, second = asked(0), asked(1)
    session = opened(first, second)
    session.next_request([first])

    assert session.asked_for(first[0].partition) == first
    assert session.asked_for(second[0].partition) is None


def test_a_topic_of_the_same_name_is_another_one() -> None:
    """C-22: the leader must forget the old id, or it answers for the wrong topic."""
    old, new = asked(0, topic_id=b"1" * 16), asked(0, topic_id=b"2" * 16)
    session = opened(old)
    assert session.next_request([new]) == Delta(
        70, 1, [new], ((old[0].partition, old[0].topic_id),)
    )


def test_a_leader_without_sessions_is_told_everything_each_time() -> None:
    """The leader declines a session with id 0."""
    them = [asked(0)]
    session = opened(*them, session_id=0)
    assert session.next_request(them) == Delta(0, 0, them)


def test_an_error_of_the_session_starts_a_new_one() -> None:
    """The leader has given it up, say for a busier one."""
    them = [asked(0)]
    for error in (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ):
        session = opened(*them)
        session.next_request(them)
        session.answered(error, 0)
        assert session.next_request(them) == Delta(0, 0, them)


def test_after_a_lost_answer_the_session_is_replaced() -> None:
    """The follower cannot know whether the leader applied the changes of that request."""
    them = [asked(0)]
    session = opened(*them)
    session.next_request(them)
    session.lost()
    assert session.next_request(them) == Delta(70, 0, them)
    session.answered(NONE, 71)
    assert session.next_request(them) == Delta(71, 1, [])


def test_epochs_of_a_session_wrap_around() -> None:
    """0 and -1 mean something else."""
    session = opened(asked(0))
    session._epoch = (1 << 31) - 1
    session.next_request([])
    session.answered(NONE, 70)
    assert session.next_request([]).session_epoch == 1


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 4), st.integers(0, 3)),
            st.sampled_from(["answered", "lost after", "lost before", "evicted", "declined"]),
        ),
        max_size=25,
    )
)
def test_the_leader_always_knows_what_is_asked(
    rounds: list[tuple[dict[int, int], str]],
) -> None:
    """Against a leader's cache, with answers lost on either side of it."""
    tokens = {index: asked(index)[0] for index in range(5)}
    session, cache = FollowerFetchSession(), LeadersCache()
    for wanted, fate in rounds:
        request = [
            (tokens[index], FetchPosition(3, offset, 2, 0)) for index, offset in wanted.items()
        ]
        delta = session.next_request(request)
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
    session = FollowerFetchSession()
    session.next_request(them)
    assert not session.repeats(2)
    session.answered(NONE, 70)
    assert session.repeats(2)
    assert not session.repeats(3)
    assert session.same_request() == Delta(70, 1, ())
    session.answered(NONE, 70)
    assert session.same_request() == Delta(70, 2, ())
    assert session.asked_for(them[1][0].partition) == them[1]
    session.lost()
    assert not session.repeats(2)

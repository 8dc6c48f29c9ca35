"""The fetch session of a consumer, request after request."""

from __future__ import annotations

from ottla.client.fetching.fetch_session import ConsumerFetchSession, RequestedPartition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.fetch_session import SessionDelta
from ottla.protocol.ids import ZERO_UUID, TopicPartition

ID = b"i" * 16
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def asked(offset: int, topic_id: bytes = ID) -> RequestedPartition:
    """The fetch parameters of one partition."""
    return RequestedPartition(offset, 1000, 3, topic_id)


def begun() -> ConsumerFetchSession:
    """A session of id 7 in which both partitions were asked for."""
    session = ConsumerFetchSession()
    session.next({FIRST: asked(0), SECOND: asked(0)})
    session.answered(ErrorCode.NONE, 7)
    return session


def test_everything_is_said_once_and_then_what_has_changed() -> None:
    """KIP-227: a thousand quiet partitions must not be in every request."""
    session = ConsumerFetchSession()

    assert session.next({FIRST: asked(0), SECOND: asked(0)}) == SessionDelta(
        0, 0, [FIRST, SECOND], []
    )
    session.answered(ErrorCode.NONE, 7)
    assert session.next({FIRST: asked(5), SECOND: asked(0)}) == SessionDelta(7, 1, [FIRST], [])
    session.answered(ErrorCode.NONE, 7)
    assert session.next({FIRST: asked(5), SECOND: asked(0)}) == SessionDelta(7, 2, [], [])


def test_what_is_not_wanted_any_more_is_forgotten() -> None:
    """Otherwise the broker would keep sending it."""
    session = begun()

    assert session.next({SECOND: asked(0)}) == SessionDelta(7, 1, [], [(FIRST, ID)])
    session.answered(ErrorCode.NONE, 7)
    assert session.next({FIRST: asked(0), SECOND: asked(0)}) == SessionDelta(7, 2, [FIRST], [])


def test_a_topic_that_was_made_anew_is_another_topic() -> None:
    """Its partitions are asked for under the id of now."""
    session = begun()
    other = b"o" * 16

    delta = session.next({FIRST: asked(0, other), SECOND: asked(0)})

    assert delta == SessionDelta(7, 1, [FIRST], [(FIRST, ID)])


def test_a_session_begins_again_after_an_error_or_a_lost_answer() -> None:
    """After a lost answer the state of the session at the broker is unknown."""
    for code in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
        session = begun()
        session.answered(code, 0)
        assert session.next({FIRST: asked(0)}) == SessionDelta(0, 0, [FIRST], [])

    session = begun()
    session.lost()
    assert session.next({FIRST: asked(0)}) == SessionDelta(7, 0, [FIRST], [])


def test_a_broker_without_sessions_is_told_everything_every_time() -> None:
    """Id 0 says that there is none."""
    session = ConsumerFetchSession()
    for _ in range(3):
        assert session.next({FIRST: asked(0)}) == SessionDelta(0, 0, [FIRST], [])
        session.answered(ErrorCode.NONE, 0)


def test_names_and_ids_are_not_mixed_in_one_session() -> None:
    """The broker answers FETCH_SESSION_TOPIC_ID_ERROR."""
    session = begun()

    delta = session.next({FIRST: asked(0), SECOND: asked(0, ZERO_UUID)})

    assert delta == SessionDelta(7, 0, [FIRST, SECOND], [])


def test_a_request_that_stands_for_itself_ends_the_session() -> None:
    """A broker keeps a limited number of them."""
    session = begun()

    assert session.end() == SessionDelta(7, -1, [], [])
    assert session.end() is None
    assert not session.is_incremental

"""Fetch sessions: which are continued, which give way, and that no news is ever left out."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.broker.replica.fetch_sessions import (
    EVICTION_MS,
    FetchSession,
    FetchSessions,
    SentOffsets,
    SessionAsk,
)
from ottla.protocol.errors import ErrorCode

Sessions = FetchSessions[str, int]


def ask(
    session_id: int = 0,
    epoch: int = 0,
    *,
    owner: str = "me",
    is_follower: bool = False,
    uses_topic_ids: bool = True,
) -> SessionAsk:
    return SessionAsk(session_id, epoch, owner, is_follower, uses_topic_ids)


def begun(
    sessions: Sessions,
    session_id: int,
    size: int = 1,
    now_ms: float = 0.0,
    *,
    is_follower: bool = False,
) -> FetchSession[str, int] | None:
    session = sessions.begin(session_id, ask(is_follower=is_follower), size, now_ms)
    if session is not None:
        session.merge(((f"p{number}", 0) for number in range(size)), ())
    return session


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (ask(7, 1), ErrorCode.NONE),
        (ask(8, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (ask(7, 1, owner="another"), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (ask(7, 2), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (ask(7, 1, uses_topic_ids=False), ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_only_the_client_that_began_a_session_continues_it_and_in_order(
    asked: SessionAsk, error: ErrorCode
) -> None:
    """Another client, or a repeated request, would get an answer to another request."""
    sessions: Sessions = FetchSessions(10)
    session = begun(sessions, 7)

    found, continued = sessions.enter(asked, 0)

    assert found == error
    assert continued is (session if error == ErrorCode.NONE else None)


def test_a_repeated_request_is_found_out() -> None:
    """What was merged for the first one must not be merged again (N-11)."""
    sessions: Sessions = FetchSessions(10)
    begun(sessions, 7)

    first = sessions.enter(ask(7, 1), 0)[0]
    second = sessions.enter(ask(7, 1), 0)[0]

    assert (first, second) == (ErrorCode.NONE, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


def test_the_epoch_begins_again_at_one() -> None:
    """Zero would be a full request."""
    sessions: Sessions = FetchSessions(10)
    session = begun(sessions, 7)
    assert session is not None
    session.epoch = (1 << 31) - 1

    sessions.enter(ask(7, (1 << 31) - 1), 0)

    assert session.epoch == 1


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_ends_the_session_it_names(epoch: int) -> None:
    """The client begins again, or goes."""
    sessions: Sessions = FetchSessions(10)
    begun(sessions, 7)

    assert sessions.enter(ask(7, epoch), 0) == (ErrorCode.NONE, None)
    assert len(sessions) == 0


def test_what_was_told_is_not_told_again_and_what_changed_is() -> None:
    """Watermark and log start are news, as records and errors are; so is the end of an error."""
    sessions: Sessions = FetchSessions(10)
    session = begun(sessions, 7)
    assert session is not None

    def tells(hw: int, start: int, *, content: bool = False, failed: bool = False) -> bool:
        return session.tell("p0", SentOffsets(hw, start), has_content=content, has_failed=failed)

    first, again = tells(5, 0), tells(5, 0)
    moved, started, records = tells(6, 0), tells(6, 1), tells(6, 1, content=True)
    failed, still, well = tells(6, 1, failed=True), tells(6, 1, failed=True), tells(6, 1)

    assert (first, again) == (True, False)
    assert (moved, started, records) == (True, True, True)
    assert (failed, still, well) == (True, True, True)
    assert not tells(6, 1)


def test_who_had_records_comes_last_the_next_time() -> None:
    """The limits of an answer would otherwise always hit the same partitions."""
    sessions: Sessions = FetchSessions(10)
    session = begun(sessions, 7, size=3)
    assert session is not None

    session.tell("p0", SentOffsets(1, 0), has_content=True, has_failed=False)

    assert [key for key, _wanted in session.items()] == ["p1", "p2", "p0"]


def test_a_partition_that_the_client_has_removed_is_not_answered() -> None:
    """When the client adds the partition again, it counts as new."""
    sessions: Sessions = FetchSessions(10)
    session = begun(sessions, 7, size=2)
    assert session is not None
    session.tell("p0", SentOffsets(1, 0), has_content=False, has_failed=False)
    session.merge((), ["p0"])
    gone = session.tell("p0", SentOffsets(1, 0), has_content=False, has_failed=False)
    session.merge([("p0", 3)], ())

    assert not gone
    assert session.tell("p0", SentOffsets(1, 0), has_content=False, has_failed=False)


@pytest.mark.parametrize(
    ("size", "is_follower", "now_ms", "left"),
    [
        # A session gives way neither to an equal one nor, before its time, to a larger one.
        (1, False, 10, {1, 2}),
        (9, False, 10, {1, 2}),
        # A follower takes the place of a consumer, the smallest first.
        (1, True, 10, {2, 3}),
        # An old session gives way to a larger one; an unused one to any session.
        (9, False, EVICTION_MS + 10, {2, 3}),
        (1, False, EVICTION_MS + 10, {1, 2}),
        (1, False, 2 * EVICTION_MS + 10, {2, 3}),
    ],
)
def test_sessions_are_evicted_by_the_rules_of_kafka(
    size: int, is_follower: bool, now_ms: float, left: set[int]
) -> None:
    """Otherwise the newest session would always evict the oldest (N-11)."""
    sessions: Sessions = FetchSessions(2)
    begun(sessions, 1, size=2)
    begun(sessions, 2, size=3)
    if now_ms < 2 * EVICTION_MS:
        for session_id in (1, 2):
            sessions.enter(ask(session_id, 1), now_ms - 5)

    begun(sessions, 3, size, now_ms, is_follower=is_follower)

    assert {number for number in (1, 2, 3) if number in sessions} == left


def test_a_follower_does_not_push_out_another_follower() -> None:
    """Otherwise two followers would evict each other for ever."""
    sessions: Sessions = FetchSessions(1)
    begun(sessions, 1, size=2, is_follower=True)

    assert begun(sessions, 2, size=9, is_follower=True) is None


def test_without_slots_there_are_no_sessions() -> None:
    """A setting of 0 switches them off."""
    sessions: Sessions = FetchSessions(0)

    assert begun(sessions, 1) is None
    assert begun(Sessions(5), 1, size=0) is None


PARTITIONS = st.sampled_from(["a", "b", "c", "d"])
CLIENTS = st.sampled_from(["x", "y", "z"])


@dataclass
class Truth:
    """A partition at the broker."""

    high_watermark: int = 0
    log_start_offset: int = 0
    has_failed: bool = False


@dataclass
class Client:
    """What a client wants, and what it believes from what it was told."""

    session_id: int = 0
    epoch: int = 0
    wanted: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)
    believed: dict[str, Truth] = field(default_factory=dict)


class SessionModel(RuleBasedStateMachine):
    """Clients that fetch through few slots, with lost answers: what they believe is true."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.next_id = 0
        self.sessions: Sessions = FetchSessions(2)
        self.truth = {name: Truth() for name in ("a", "b", "c", "d")}
        self.clients = {name: Client() for name in ("x", "y", "z")}

    @rule(name=PARTITIONS, kind=st.sampled_from(["write", "cut", "fail"]))
    def change(self, name: str, kind: str) -> None:
        truth = self.truth[name]
        if kind == "write":
            truth.high_watermark += 1
        elif kind == "cut":
            truth.log_start_offset += 1
        else:
            truth.has_failed = not truth.has_failed

    @rule(who=CLIENTS, name=PARTITIONS)
    def want(self, who: str, name: str) -> None:
        self.clients[who].wanted ^= {name}

    @rule(ms=st.sampled_from([1.0, EVICTION_MS, EVICTION_MS + 1]))
    def wait(self, ms: float) -> None:
        self.now_ms += ms

    @rule(who=CLIENTS, is_lost=st.booleans())
    def fetch(self, who: str, is_lost: bool) -> None:
        client = self.clients[who]
        asked = SessionAsk(client.session_id, client.epoch, who, who == "x", True)
        error, session = self.sessions.enter(asked, self.now_ms)
        if error != ErrorCode.NONE:
            assert client.epoch > 0
            client.epoch = 0
            return
        names = set(client.wanted)
        if session is not None:
            changed = [(name, 0) for name in sorted(client.wanted - client.sent)]
            session.merge(changed, sorted(client.sent - client.wanted))
            names = {name for name, _ in session.items()}
            assert names == client.wanted
            if not names:
                self.sessions.end(session)
                session = None
        was_full = session is None
        if session is None and asked.wants_session:
            self.next_id += 1
            session = self.sessions.begin(self.next_id, asked, len(names), self.now_ms)
            if session is not None:
                session.merge([(name, 0) for name in sorted(names)], ())
        answer = {name for name in names if self._tells(session, name) or was_full}
        if is_lost:
            # What the broker has made of it is not known: begin again.
            client.epoch = 0
            return
        client.session_id = 0 if session is None else session.session_id
        client.epoch = 0 if session is None else (1 if was_full else client.epoch + 1)
        client.sent = set(client.wanted)
        for name in set(client.believed) - names:
            del client.believed[name]
        for name in answer:
            truth = self.truth[name]
            client.believed[name] = Truth(
                truth.high_watermark, truth.log_start_offset, truth.has_failed
            )
        assert client.believed.keys() == client.wanted
        for name in client.wanted:
            assert client.believed[name] == self.truth[name]

    def _tells(self, session: FetchSession[str, int] | None, name: str) -> bool:
        if session is None:
            return True
        truth = self.truth[name]
        offsets = SentOffsets(truth.high_watermark, truth.log_start_offset)
        return session.tell(name, offsets, has_content=False, has_failed=truth.has_failed)

    @invariant()
    def slots_are_kept(self) -> None:
        assert len(self.sessions) <= 2


TestSessionModel = SessionModel.TestCase
TestSessionModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

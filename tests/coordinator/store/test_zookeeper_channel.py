"""How long a session in ZooKeeper is believed, and what becomes of what was asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.store import (
    AnswerUnreadable,
    ConnectionLoss,
    NoNode,
    Replace,
    SessionExpired,
    SessionState,
    Stat,
    WatchEvent,
    WatchEventKind,
    Znode,
)
from ottla.coordinator.store.zookeeper_channel import IN_FLIGHT_MAX, Channel
from ottla.coordinator.store.zookeeper_requests import Answered, Get
from ottla.coordinator.store.zookeeper_session import ZooKeeperSession
from tests.coordinator.store.support import Heard
from tests.coordinator.store.zookeeper_link import HandClock, ScriptedLink

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

TIMEOUT_MS = 6_000
STAT = Stat(1, 1, 0, 0, 0, 0, 0)


class Bench:
    """A session, its channel, its link and its clock."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.link = ScriptedLink()
        self.channel = Channel(self.link, self.clock, TIMEOUT_MS)
        self.session = ZooKeeperSession(self.channel, "")
        self.states: list[SessionState] = []
        self.session.on_state(self.states.append)

    def connect(self, connection: int = 1, session_id: int = 7) -> None:
        self.channel.on_connected(connection, session_id, TIMEOUT_MS, self.clock.now)


@pytest.fixture
async def bench() -> Bench:
    """Connected, with nothing asked yet."""
    made = Bench()
    opening = await begin(made.channel.open(TIMEOUT_MS))
    made.connect()
    await opening
    return made


async def begin(work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
    """Start it and let it come to its first wait."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    return task


async def test_without_an_answer_the_session_is_lost_at_its_timeout(bench: Bench) -> None:
    """C-06: when all servers are gone, no server can report that the session has ended."""
    bench.link.lose_all()
    bench.clock.advance(TIMEOUT_MS - 1)
    assert bench.session.state is SessionState.SUSPENDED
    bench.clock.advance(1)

    assert bench.states == [SessionState.SUSPENDED, SessionState.LOST]
    assert bench.link.is_stopped
    with pytest.raises(SessionExpired):
        await bench.session.get("/a")


async def test_a_silent_connection_ends_the_session_as_well(bench: Bench) -> None:
    """Servers that take bytes and say nothing are as good as none."""
    bench.clock.advance(TIMEOUT_MS)

    assert bench.session.state is SessionState.LOST


async def test_who_asked_what_is_answered_strangely_is_told_so(bench: Bench) -> None:
    """The others' answers are lost with the connection, on which nothing can be trusted."""
    first, second = [await begin(bench.session.get(path)) for path in ("/a", "/b")]
    bench.link.answer(error=AnswerUnreadable("strange"))

    with pytest.raises(AnswerUnreadable, match="strange"):
        await first
    with pytest.raises(ConnectionLoss, match="Get: the answer was lost"):
        await second
    assert bench.link.dropped == [1]
    assert bench.states == [SessionState.SUSPENDED]


async def test_answers_out_of_order_end_the_connection(bench: Bench) -> None:
    """Each would be taken for the answer of another request."""
    asked = [await begin(bench.session.get(path)) for path in ("/a", "/b")]
    bench.link.asked[1].on_answer(Answered(Znode(b"b", STAT), None))

    for one in asked:
        with pytest.raises(ConnectionLoss):
            await one
    assert bench.link.dropped == [1]
    # The session goes on over the next one.
    bench.connect(2)
    again = await begin(bench.session.get("/a"))
    bench.link.asked[-1].on_answer(Answered(Znode(b"a", STAT), None))
    assert await again == Znode(b"a", STAT)


async def test_answered_beats_keep_the_session(bench: Bench) -> None:
    """A session without traffic must not run out."""
    for _ in range(60):
        bench.clock.advance(TIMEOUT_MS / 6)
        bench.link.answer_all()

    assert bench.session.state is SessionState.CONNECTED
    assert bench.states == []
    assert bench.clock.now - bench.session.last_answer_ms <= TIMEOUT_MS / 6


async def test_the_lease_counts_from_the_question_not_from_the_answer(bench: Bench) -> None:
    """An answer that was long on its way proves nothing about the time that it took."""
    reading = await begin(bench.session.get("/a"))
    asked_ms = bench.clock.now
    bench.clock.jump(900)
    bench.link.answer(Znode(b"", STAT))
    await reading

    assert bench.session.last_answer_ms == asked_ms


async def test_a_refusal_is_a_proof_of_life(bench: Bench) -> None:
    """The servers have spoken, whatever they said."""
    bench.clock.jump(500)
    reading = await begin(bench.session.get("/a"))
    bench.link.answer(error=NoNode("/a"))
    with pytest.raises(NoNode):
        await reading

    assert bench.session.last_answer_ms == bench.clock.now


async def test_a_process_that_was_frozen_knows_before_any_timer_has_run(bench: Bench) -> None:
    """P-02: requests that were queued meanwhile are served first, and must find no lease."""
    bench.clock.jump(TIMEOUT_MS)

    assert bench.session.state is SessionState.LOST
    assert bench.states == [SessionState.LOST]
    with pytest.raises(SessionExpired):
        await bench.session.create("/a")
    assert bench.link.requests == []


async def test_a_lost_session_does_not_come_back(bench: Bench) -> None:
    """C-06: others have acted upon its end; that the servers were slower changes nothing."""
    bench.clock.advance(TIMEOUT_MS)
    bench.connect(2)

    assert bench.session.state is SessionState.LOST
    assert bench.states[-1] is SessionState.LOST


async def test_a_hanging_loop_sends_nothing(bench: Bench) -> None:
    """P-01: only timers of the loop keep a session, so that it ends with the loop."""
    pulses = bench.link.pulses
    bench.clock.jump(TIMEOUT_MS - 1)

    assert bench.link.asked == []
    assert bench.link.pulses == pulses


async def test_after_a_stall_what_has_arrived_counts_first(bench: Bench) -> None:
    """An answer in the queue must not be taken for a missing one, and the connection for dead."""
    bench.clock.advance(TIMEOUT_MS / 6)
    bench.link.undelivered.append(bench.link.answer_all)
    bench.clock.jump(TIMEOUT_MS * 0.6)
    bench.clock.advance(0)

    assert bench.link.dropped == []
    assert bench.session.state is SessionState.CONNECTED


async def test_an_unanswered_request_costs_the_connection_after_half_the_timeout(
    bench: Bench,
) -> None:
    """The other half is needed to reach another server with the same session."""
    writing = await begin(bench.session.set("/a", b""))
    bench.clock.advance(TIMEOUT_MS / 2)

    assert bench.link.dropped == [1]
    assert bench.states == [SessionState.SUSPENDED]
    with pytest.raises(ConnectionLoss):
        await writing
    bench.connect(2)
    assert bench.session.state is SessionState.CONNECTED


async def test_what_is_unanswered_at_a_drop_has_an_unknown_outcome(bench: Bench) -> None:
    """P-08: it may have been done. Those who ask again must be able to tell."""
    writing = await begin(bench.session.set("/a", b""))
    bench.link.lose_all()

    with pytest.raises(ConnectionLoss):
        await writing
    assert bench.states == [SessionState.SUSPENDED]


async def test_nothing_waits_for_a_connection_to_come_back(bench: Bench) -> None:
    """A write that is sent a minute later meets a world that its writer has not seen."""
    bench.link.lose_all()
    with pytest.raises(ConnectionLoss):
        await bench.session.set("/a", b"")
    bench.connect(2)

    assert bench.link.requests == []
    assert bench.states == [SessionState.SUSPENDED, SessionState.CONNECTED]


async def test_news_of_an_old_connection_are_not_heard(bench: Bench) -> None:
    """What arrives after the end was told would be believed by those who have read again."""
    heard = Heard()
    watching = await begin(bench.session.get("/a", heard))
    bench.link.answer(Znode(b"", STAT))
    await watching
    late = await begin(bench.session.get("/a"))
    asked = bench.link.asked.pop()
    bench.link.lose_all()
    bench.connect(2)
    bench.channel.on_event(WatchEvent(WatchEventKind.CHANGED, "/a"))
    again = await begin(bench.session.get("/b"))
    asked.on_answer(Answered(Znode(b"late", STAT), None))

    with pytest.raises(ConnectionLoss):
        await late
    assert heard.events == []
    bench.link.answer(Znode(b"b", STAT))
    assert await again == Znode(b"b", STAT)


async def test_watches_are_armed_by_the_answer_and_dropped_with_the_connection(
    bench: Bench,
) -> None:
    """C-07: the servers have forgotten them; a watch that seems to be there is worse than none."""
    heard = Heard()
    failing = await begin(bench.session.get("/a", heard))
    bench.link.answer(error=NoNode("/a"))
    with pytest.raises(NoNode):
        await failing
    bench.channel.on_event(WatchEvent(WatchEventKind.CREATED, "/a"))
    assert heard.events == []

    existing = await begin(bench.session.exists("/a", heard))
    bench.link.answer(None)
    bench.channel.on_event(WatchEvent(WatchEventKind.CREATED, "/a"))
    await existing
    assert heard.events == [WatchEvent(WatchEventKind.CREATED, "/a")]


async def test_another_session_of_the_servers_is_not_taken_for_this_one(bench: Bench) -> None:
    """C-08: its ephemeral znodes are not there."""
    bench.link.lose_all()
    bench.connect(2, session_id=8)

    assert bench.session.state is SessionState.LOST


async def test_many_requests_leave_in_order_and_in_a_window(bench: Bench) -> None:
    """C-16: a burst neither fills the pipe to the connection nor overtakes itself."""
    count = 3 * IN_FLIGHT_MAX
    writing = [await begin(bench.session.set(f"/{n}", b"")) for n in range(count)]
    seen = []
    while bench.link.asked:
        assert len(bench.link.asked) <= IN_FLIGHT_MAX
        seen.append(bench.link.asked[0].request)
        bench.link.answer(STAT)

    assert seen == [Replace(f"/{n}", b"") for n in range(count)]
    assert await asyncio.gather(*writing) == [STAT] * count


async def test_who_stops_waiting_before_it_is_sent_has_not_asked(bench: Bench) -> None:
    """A cancelled controller's writes end with it, as far as they can."""
    busy = [await begin(bench.session.get("/a")) for _ in range(IN_FLIGHT_MAX)]
    cancelled = await begin(bench.session.set("/b", b""))
    last = await begin(bench.session.get("/c"))
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    while bench.link.asked:
        bench.link.answer(Znode(b"", STAT))
        assert Replace("/b", b"") not in bench.link.requests
    await asyncio.gather(*busy, last)


async def test_no_caller_waits_longer_than_the_limit_for_the_first_connection() -> None:
    """A wrong address is told, not waited for."""
    bench = Bench()
    opening = await begin(bench.channel.open(2_000))
    bench.clock.advance(2_000)

    with pytest.raises(ConnectionLoss):
        await opening
    assert bench.link.is_stopped


async def test_a_loop_that_waits_for_its_first_connection_is_alive() -> None:
    """An ensemble that starts later than its brokers must still be given a session."""
    bench = Bench()
    opening = await begin(bench.channel.open(10 * TIMEOUT_MS))
    bench.clock.advance(5 * TIMEOUT_MS)
    assert bench.link.pulses >= 5 * 6 - 1
    bench.connect()
    await opening

    assert bench.session.state is SessionState.CONNECTED


async def test_a_closed_session_asks_nothing_more(bench: Bench) -> None:
    """The end of a session is the end of everything in it."""
    reading = await begin(bench.session.get("/a"))
    await bench.session.close()
    await bench.session.close()

    with pytest.raises(ConnectionLoss):
        await reading
    with pytest.raises(SessionExpired):
        await bench.session.get("/a")
    assert bench.states == [SessionState.LOST]
    assert bench.link.requests == [Get("/a")]

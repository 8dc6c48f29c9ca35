"""What is done after a socket's event: in order, once, outside of the caller."""

from __future__ import annotations

import asyncio
from functools import partial

from ottla.broker.engine.context import EVENT_ROUNDS, EventTurn


async def test_what_an_event_owes_is_done_when_it_ends() -> None:
    """A callback of the loop for each would send the answer after one more look at all sockets."""
    turn, done = EventTurn(), list[str]()
    turn.is_event = True
    turn.defer(lambda: done.append("first"))
    turn.defer(lambda: turn.defer(lambda: done.append("of the first")))
    assert done == []
    turn.end()

    assert done == ["first", "of the first"]
    assert not turn.is_event


async def test_between_events_it_is_done_soon_and_outside_of_the_caller() -> None:
    """A completion inside an append would see half of it (N-10)."""
    turn, done = EventTurn(), list[str]()
    turn.defer(lambda: done.append("soon"))
    assert done == []
    await asyncio.sleep(0)

    assert done == ["soon"]


async def test_an_event_that_always_leaves_more_lets_the_others_have_their_turn() -> None:
    """A wake-up of thousands would keep every other socket waiting."""
    turn, count = EventTurn(), 0

    def go_on() -> None:
        nonlocal count
        count += 1
        if count < 10:
            turn.defer(go_on)

    turn.is_event = True
    turn.defer(go_on)
    turn.end()
    assert count == EVENT_ROUNDS
    for _ in range(10):
        await asyncio.sleep(0)

    assert count == 10


async def test_one_that_fails_is_reported_and_keeps_nothing_from_the_rest() -> None:
    """Its event's other connections still send their answers."""
    loop, reported = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _loop, context: reported.append(context["exception"]))
    turn, done, error = EventTurn(), list[str](), ZeroDivisionError()
    turn.is_event = True
    turn.defer(partial(_fail, error))
    turn.defer(lambda: done.append("the other"))
    turn.end()

    assert reported == [error]
    assert done == ["the other"]


def _fail(error: Exception) -> None:
    raise error

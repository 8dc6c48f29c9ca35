"""A link whose other end is the test, and a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.store.store import ConnectionLoss
from ottla.coordinator.store.zookeeper_requests import Answered, Exists

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.store import StoreError
    from ottla.coordinator.store.zookeeper_requests import LinkEvents, Request


class HandTimer:
    """A callback and when it is due."""

    def __init__(self, deadline_ms: float, callback: Callable[[], object]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandClock:
    """Moves when told; timers run in order of their deadlines, or not at all while asleep."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._timers: list[HandTimer] = []

    def now_ms(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> HandTimer:
        timer = HandTimer(deadline_ms, callback)
        self._timers.append(timer)
        return timer

    async def sleep(self, delay_ms: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.call_at(self.now + delay_ms, wake)
        await waiter

    def advance(self, delay_ms: float) -> None:
        """Let time pass, with everything that happens on the way."""
        end_ms = self.now + delay_ms
        while True:
            due = [one for one in self._timers if one.callback and one.deadline_ms <= end_ms]
            if not due:
                break
            timer = min(due, key=lambda one: one.deadline_ms)
            self._timers.remove(timer)
            self.now = max(self.now, timer.deadline_ms)
            assert timer.callback is not None
            timer.callback()
        self.now = end_ms

    def jump(self, delay_ms: float) -> None:
        """The process was frozen: time has passed and no timer has run yet."""
        self.now += delay_ms


class Asked(NamedTuple):
    """A request on its way."""

    request: Request
    on_answer: Callable[[Answered], None]


class ScriptedLink:
    """Remembers what it was told to do; the test answers."""

    def __init__(self) -> None:
        self.events: LinkEvents | None = None
        self.asked: list[Asked] = []
        self.undelivered: list[Callable[[], object]] = []
        self.pulses = 0
        self.dropped: list[int] = []
        self.is_stopped = False

    def start(self, events: LinkEvents) -> None:
        self.events = events

    def submit(self, request: Request, on_answer: Callable[[Answered], None]) -> None:
        self.asked.append(Asked(request, on_answer))

    def pulse(self) -> None:
        self.pulses += 1

    def deliver(self) -> None:
        news, self.undelivered = self.undelivered, []
        for one in news:
            one()

    def drop(self, connection: int) -> None:
        self.dropped.append(connection)

    def stop(self) -> asyncio.Future[None]:
        self.is_stopped = True
        stopped = asyncio.get_running_loop().create_future()
        stopped.set_result(None)
        return stopped

    @property
    def requests(self) -> list[Request]:
        """The requests, without those that only keep the session alive."""
        return [asked.request for asked in self.asked if asked.request != Exists("/")]

    def answer(self, result: object = None, error: StoreError | None = None) -> None:
        """Answer the oldest request."""
        self.asked.pop(0).on_answer(Answered(result, error))

    def answer_all(self) -> None:
        while self.asked:
            self.answer()

    def lose_all(self) -> None:
        """The connection breaks, as kazoo tells it: first the requests, then the state."""
        assert self.events is not None
        while self.asked:
            self.answer(error=ConnectionLoss("broken"))
        self.events.on_dropped()

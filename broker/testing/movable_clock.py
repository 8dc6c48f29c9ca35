"""A clock that tests can move: forward as a whole, or only its date.

Time passes as on the clock below. ``advance`` adds to both clocks at once, and due timers ring;
``jump`` moves only the date, as an administrator or NTP does.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Clock, Timer

# Cancelled timers are kept until they are due, or until they are the majority of so many.
PURGE_MIN = 1_024


class MovableTimer:
    """``ports.Timer``: rings once, in the context in which it was created."""

    __slots__ = ("_context", "callback", "deadline_ms")

    def __init__(self, deadline_ms: float, callback: Callable[[], object]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], object] | None = callback
        self._context = contextvars.copy_context()

    def cancel(self) -> None:
        self.callback = None

    def ring(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ring as the loop's next callback: a failing callback must not stop the others."""
        loop.call_soon(self._run, context=self._context)

    def _run(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class MovableClock:
    """``ports.Clock`` around another one, with an alarm for the earliest of its timers."""

    def __init__(self, below: Clock, ahead_ms: float = 0.0, step_ms: int = 0) -> None:
        self._below = below
        self._ahead_ms = ahead_ms
        self._step_ms = step_ms
        self._timers: list[tuple[float, int, MovableTimer]] = []
        self._numbers = count()
        self._alarm: Timer | None = None
        self._alarm_ms = float("inf")
        self._is_held = False
        self._purge_at = PURGE_MIN

    @property
    def ahead_ms(self) -> float:
        """By how much it was advanced."""
        return self._ahead_ms

    @property
    def step_ms(self) -> int:
        """By how much its date was moved besides."""
        return self._step_ms

    def now_ms(self) -> float:
        return self._below.now_ms() + self._ahead_ms

    def wall_ms(self) -> int:
        return self._below.wall_ms() + int(self._ahead_ms) + self._step_ms

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> MovableTimer:
        timer = MovableTimer(deadline_ms, callback)
        heapq.heappush(self._timers, (deadline_ms, next(self._numbers), timer))
        if len(self._timers) > self._purge_at:
            self._purge()
        if deadline_ms < self._alarm_ms:
            self._arm()
        return timer

    async def sleep(self, delay_ms: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        timer = self.call_at(self.now_ms() + delay_ms, wake)
        try:
            await waiter
        finally:
            timer.cancel()

    def advance(self, ms: float) -> None:
        """Advance the time. Due timers ring in their order."""
        assert ms >= 0
        self._ahead_ms += ms
        self._ring()

    def jump(self, ms: int) -> None:
        """Move the date in either direction; timeouts are not affected."""
        self._step_ms += ms

    def hold(self) -> None:
        """Hold all timers until the release, as in a stopped process."""
        self._is_held = True
        self._disarm()

    def release(self) -> None:
        """Let overdue timers ring now."""
        self._is_held = False
        self._ring()

    def close(self) -> None:
        """Stop all timers permanently."""
        self.hold()
        self._timers.clear()

    def _ring(self) -> None:
        self._disarm()
        if self._is_held:
            return
        loop = asyncio.get_running_loop()
        now_ms = self.now_ms()
        timers = self._timers
        while timers and (timers[0][2].callback is None or timers[0][0] <= now_ms):
            timer = heapq.heappop(timers)[2]
            if timer.callback is not None:
                timer.ring(loop)
        self._arm()

    def _arm(self) -> None:
        if self._is_held or not self._timers:
            return
        self._disarm()
        self._alarm_ms = self._timers[0][0]
        self._alarm = self._below.call_at(self._alarm_ms - self._ahead_ms, self._ring)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_ms = float("inf")

    def _purge(self) -> None:
        self._timers = [entry for entry in self._timers if entry[2].callback is not None]
        heapq.heapify(self._timers)
        self._purge_at = max(PURGE_MIN, 2 * len(self._timers))

"""Requests that by their nature have no answer, on their way into the kernel."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Clock, Timer


class UnansweredSends:
    """Those of one connection, oldest first.

    ``late`` is called when for the time of a request nothing at all has moved; ``moved_ms`` tells
    when something has."""

    def __init__(
        self,
        clock: Clock,
        timeout_ms: float,
        moved_ms: Callable[[], float],
        late: Callable[[str], object],
    ) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._moved_ms = moved_ms
        self._late = late
        # Each with where it ends, and who waits for it to leave.
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def wait(self, name: str, position: int) -> asyncio.Future[None]:
        """Done when all up to that position of the connection's bytes has left."""
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((position, left))
        made_ms = self._clock.now_ms()
        timer: Timer | None = None

        def look() -> None:
            nonlocal timer
            late_ms = max(made_ms, self._moved_ms()) + self._timeout_ms
            if late_ms <= self._clock.now_ms():
                self._late(f"{name} has not left within {self._timeout_ms:.0f} ms")
            else:
                timer = self._clock.call_at(late_ms, look)

        def forget(_: object) -> None:
            if timer is not None:
                timer.cancel()

        look()
        left.add_done_callback(forget)
        return left

    def left(self, position: int) -> None:
        """All bytes up to there have left, or no task needs to wait for them any more."""
        while self._waiting and self._waiting[0][0] <= position:
            _, left = self._waiting.popleft()
            if not left.done():
                left.set_result(None)

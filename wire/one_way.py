"""Tracks requests without an answer until the kernel has accepted them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Clock, Timer


class UnansweredSends:
    """Such requests of one connection, oldest first.

    ``late`` is called if nothing moved for one request timeout; ``moved_ms`` returns the time of
    the last progress."""

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
        # The end position of each, and the future that waits for it.
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def wait(self, name: str, position: int) -> asyncio.Future[None]:
        """A future that is done when all bytes up to that position have left."""
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
        """Resolve the futures up to that position, when its bytes have left or at the close."""
        while self._waiting and self._waiting[0][0] <= position:
            _, left = self._waiting.popleft()
            if not left.done():
                left.set_result(None)

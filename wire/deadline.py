"""A time limit for awaiting code, on our own clock instead of the event loop's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from ottla.protocol.ports import Clock, Timer


class TimeLimit:
    """``async with TimeLimit(clock, 500):`` ends its body with TimeoutError after 500 ms.

    A cancellation from outside stays a cancellation, also when it meets the deadline."""

    __slots__ = ("_cancelling", "_clock", "_expired", "_limit_ms", "_task", "_timer")

    def __init__(self, clock: Clock, limit_ms: float) -> None:
        self._clock = clock
        self._limit_ms = limit_ms
        self._expired = False
        self._cancelling = 0
        self._task: asyncio.Task[object] | None = None
        self._timer: Timer | None = None

    async def __aenter__(self) -> TimeLimit:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = self._clock.call_at(self._clock.now_ms() + self._limit_ms, self._expire)
        return self

    def _expire(self) -> None:
        assert self._task is not None
        self._expired = True
        self._task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        assert self._timer is not None
        self._timer.cancel()
        if not self._expired:
            return
        still_cancelled = self._task.uncancel() > self._cancelling
        if not still_cancelled and kind is asyncio.CancelledError:
            raise TimeoutError(f"not done within {self._limit_ms:.0f} ms") from error

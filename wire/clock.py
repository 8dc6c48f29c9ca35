"""The real clock, and limits on the time that awaiting code takes.

A limit counts on a ``Clock`` of ``protocol/ports.py`` instead of the event loop's own, so that it
holds in simulated time, too. A timeout does not undo what a call started: a connection attempt
continues for other callers, and a request that was sent keeps its position on its connection.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING

from ottla.protocol.apis import API, ApiKey
from ottla.wire.errors import BrokerUnreachable, RequestTimedOut, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ottla.protocol.ports import Address, Clock, Timer

# The longest delay that selectors accept; a timer that fires early is armed again.
DELAY_MS_MAX = 24 * 3_600_000
# Lookups: while one of these is pending, no request of the call itself has been sent.
ON_THE_WAY = frozenset({API[ApiKey.METADATA].name, API[ApiKey.FIND_COORDINATOR].name})


class RealTimer:
    """A pending callback. Never runs before its deadline on ``RealClock``.

    Loops count a delay from the start of their iteration, and uvloop rounds it to whole
    milliseconds, so a loop's timer may fire early; then it is armed again."""

    __slots__ = ("_callback", "_deadline_ms", "_handle")

    def __init__(self, deadline_ms: float, callback: Callable[[], object]) -> None:
        self._deadline_ms = deadline_ms
        self._callback: Callable[[], object] | None = callback
        self._handle: asyncio.TimerHandle | None = None
        self._arm()

    def cancel(self) -> None:
        self._callback = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        # A deadline may be infinite.
        left_ms = min(self._deadline_ms - time.monotonic() * 1000, DELAY_MS_MAX)
        delay_ms = max(0, math.ceil(left_ms))
        self._handle = asyncio.get_running_loop().call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._handle = None
        callback = self._callback
        if callback is None:
            return
        if time.monotonic() * 1000 < self._deadline_ms:
            self._arm()
            return
        self._callback = None
        callback()


class RealClock:
    """The machine's clocks. A timer belongs to the event loop running when it is created."""

    __slots__ = ()

    def now_ms(self) -> float:
        return time.monotonic() * 1000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> RealTimer:
        return RealTimer(deadline_ms, callback)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(max(0.0, delay_ms) / 1000)


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


class CallInProgress:
    """What one call waits for. Updated through ``reaching`` and by connections."""

    __slots__ = ("address", "request")

    def __init__(self, address: Address) -> None:
        self.address = address
        # The request sent to that broker; None while connecting to it.
        self.request: str | None = None

    def late(self, limit_ms: float) -> TransportError:
        """The error for a call that exceeded its limit."""
        if self.request is None:
            return BrokerUnreachable(
                self.address, f"no connection within the {limit_ms:.0f} ms of the call"
            )
        was_sent = self.request not in ON_THE_WAY
        return RequestTimedOut(self.address, self.request, limit_ms, was_sent=was_sent)


# A connection sets ``address`` and ``request`` when it has sent a request of the call.
CURRENT: ContextVar[CallInProgress | None] = ContextVar("call", default=None)


def reaching(address: Address) -> None:
    """Note that the current call waits for a connection to this address from here on."""
    call = CURRENT.get()
    if call is not None:
        call.address, call.request = address, None


def detached() -> Context:
    """The context for a task that outlives the call that started it."""
    context = copy_context()
    context.run(CURRENT.set, None)
    return context


class CallLimit:
    """``async with CallLimit(clock, left_ms, 500, address):`` ends its body with a TransportError
    after ``left_ms``, what is left of the call's 500 ms. Nested limits share one CallInProgress.
    The error names ``address`` until another broker is tried or asked."""

    __slots__ = ("_call", "_call_ms", "_limit", "_token", "is_over")

    def __init__(self, clock: Clock, left_ms: float, call_ms: float, address: Address) -> None:
        self.is_over = False
        self._call_ms = call_ms
        self._call = CURRENT.get() or CallInProgress(address)
        self._limit = TimeLimit(clock, left_ms)

    async def __aenter__(self) -> CallLimit:
        # Earlier requests, for example of a refused attempt, have been answered.
        self._call.request = None
        self._token = CURRENT.set(self._call)
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        CURRENT.reset(self._token)
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError as over:
            self.is_over = True
            raise self._call.late(self._call_ms) from over

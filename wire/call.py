"""Limits the time of one call, and reports what the call was waiting for when it ran out.

A timeout does not undo what the call started: a connection attempt continues for other callers, and
a request that was sent keeps its position on its connection.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING

from ottla.protocol.apis import API, ApiKey
from ottla.wire.deadline import TimeLimit
from ottla.wire.errors import BrokerUnreachable, RequestTimedOut, TransportError

if TYPE_CHECKING:
    from types import TracebackType

    from ottla.protocol.ports import Address, Clock

# Lookups: while one of these is pending, no request of the call itself has been sent.
ON_THE_WAY = frozenset({API[ApiKey.METADATA].name, API[ApiKey.FIND_COORDINATOR].name})


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
CURRENT: ContextVar[CallInProgress | None] = ContextVar("errand", default=None)


def reaching(address: Address) -> None:
    """Note that the current call waits for a connection to this address from here on."""
    errand = CURRENT.get()
    if errand is not None:
        errand.address, errand.request = address, None


def detached() -> Context:
    """The context for a task that outlives the call that started it."""
    context = copy_context()
    context.run(CURRENT.set, None)
    return context


class CallLimit:
    """``async with CallLimit(clock, left_ms, 500, address):`` ends its body with a TransportError
    after ``left_ms``, what is left of the call's 500 ms. Nested limits share one CallInProgress.
    The error names ``address`` until another broker is tried or asked."""

    __slots__ = ("_call_ms", "_errand", "_limit", "_token", "is_over")

    def __init__(self, clock: Clock, left_ms: float, call_ms: float, address: Address) -> None:
        self.is_over = False
        self._call_ms = call_ms
        self._errand = CURRENT.get() or CallInProgress(address)
        self._limit = TimeLimit(clock, left_ms)

    async def __aenter__(self) -> CallLimit:
        # Earlier requests, for example of a refused attempt, have been answered.
        self._errand.request = None
        self._token = CURRENT.set(self._errand)
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
            raise self._errand.late(self._call_ms) from over

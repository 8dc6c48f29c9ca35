"""The time that one call may take as a whole, and whom it waits for when that is over.

Whatever a call waits for is left where it is: a connection that is being made goes on for others,
and a request that was sent keeps its place on its connection.
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

# Asked on the way: whatever they ask, nothing of the call itself was sent yet.
ON_THE_WAY = frozenset({API[ApiKey.METADATA].name, API[ApiKey.FIND_COORDINATOR].name})


class CallInProgress:
    """What one call waits for. Kept by those who wait, through ``reaching`` and by connections."""

    __slots__ = ("address", "request")

    def __init__(self, address: Address) -> None:
        self.address = address
        # What the broker there was asked; None as long as it is being connected to.
        self.request: str | None = None

    def late(self, limit_ms: float) -> TransportError:
        """Why the call has not come to an end."""
        if self.request is None:
            return BrokerUnreachable(
                self.address, f"no connection within the {limit_ms:.0f} ms of the call"
            )
        was_sent = self.request not in ON_THE_WAY
        return RequestTimedOut(self.address, self.request, limit_ms, was_sent=was_sent)


# A connection sets ``address`` and ``request`` when it has sent a request of the call.
CURRENT: ContextVar[CallInProgress | None] = ContextVar("errand", default=None)


def reaching(address: Address) -> None:
    """Whoever calls waits for a connection from here on."""
    errand = CURRENT.get()
    if errand is not None:
        errand.address, errand.request = address, None


def detached() -> Context:
    """The context for a task that goes on when the call has ended."""
    context = copy_context()
    context.run(CURRENT.set, None)
    return context


class CallLimit:
    """``async with CallLimit(clock, left_ms, 500, address):`` ends its body with a TransportError
    when that much is over of the 500 ms that the call has. Limits within others share the errand.

    ``address`` is whom to name as long as nobody else was asked or tried."""

    __slots__ = ("_call_ms", "_errand", "_limit", "_token", "is_over")

    def __init__(self, clock: Clock, left_ms: float, call_ms: float, address: Address) -> None:
        self.is_over = False
        self._call_ms = call_ms
        self._errand = CURRENT.get() or CallInProgress(address)
        self._limit = TimeLimit(clock, left_ms)

    async def __aenter__(self) -> CallLimit:
        # What was asked before, say in a try that was refused, is answered.
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

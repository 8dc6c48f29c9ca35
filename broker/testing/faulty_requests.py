"""Injects request faults: a lost response, an error instead of the work, a delay.

It stands between a broker's network and its dispatcher, and affects only client requests: for
requests between brokers use faults of the network.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.context import Paused
from ottla.broker.testing.refusals import refusal_of
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, RemoteProtocolError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.broker.engine.context import ClientPeer, Dispatch, ReplyPart, ReplySlot
    from ottla.protocol.ports import Clock

_key_of = Struct(">h").unpack_from
_KEY_BYTES = 2


class RequestFault(NamedTuple):
    """Requests of an API: their replies are lost, or they get an error instead.

    ``error`` None: the request is executed, then the connection is closed without a response. The
    cluster counts the uses, because its brokers share them."""

    number: int
    api_key: int
    error: int | None


class FaultyRequests:
    """The request faults of one broker. Its network gets ``dispatch``."""

    def __init__(
        self,
        behind: Dispatch,
        clients_listener: str,
        clock: Clock,
        claim: Callable[[int, str], Awaitable[bool]],
    ) -> None:
        """``claim``: called with a fault's number and its effect; returns whether it may apply."""
        self._behind = behind
        self._listener = clients_listener
        self._clock = clock
        self._claim = claim
        self._faults: dict[int, RequestFault] = {}
        # How long a produce is delayed before it is handled, as behind a slow disk.
        self.produce_delay_ms = 0.0

    def add(self, fault: RequestFault) -> None:
        """Add a fault from the next request on, after the earlier faults."""
        self._faults[fault.number] = fault

    def drop(self, number: int) -> None:
        """Remove a fault, if it exists."""
        self._faults.pop(number, None)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def dispatch(self, peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> Any:
        """``context.Dispatch``."""
        if peer.listener != self._listener or len(frame) < _KEY_BYTES:
            return self._behind(peer, frame, reply)
        key = _key_of(frame)[0]
        for fault in self._faults.values():
            if fault.api_key == key:
                return self._strike(fault, peer, frame, reply)
        if self.produce_delay_ms and key == ApiKey.PRODUCE:
            return self._later(peer, frame, reply)
        return self._behind(peer, frame, reply)

    async def _strike(
        self, fault: RequestFault, peer: ClientPeer, frame: memoryview, reply: ReplySlot
    ) -> None:
        name = ApiKey(fault.api_key).name
        did = f"lost a reply to {name}"
        if fault.error is not None:
            did = f"refused {name} with {ErrorCode(fault.error).name}"
        if not await self._claim(fault.number, did):
            # Another broker has used up the fault.
            self.drop(fault.number)
            await _finish(self.dispatch(peer, frame, reply))
        elif fault.error is None:
            await _finish(self._behind(peer, frame, _LostReply(reply)))
        else:
            try:
                reply.send(refusal_of(frame, fault.error))
            except RemoteProtocolError as error:
                reply.close(str(error))

    async def _later(self, peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> None:
        await self._clock.sleep(self.produce_delay_ms)
        await _finish(self._behind(peer, frame, reply))


async def _finish(outcome: Any) -> None:
    """Wait for the end of what a dispatch has returned."""
    if isinstance(outcome, Paused):
        outcome = outcome.coroutine
    if outcome is not None:
        await outcome


class _LostReply:
    """``context.Reply`` that closes the connection instead of sending the response."""

    __slots__ = ("_reply",)

    def __init__(self, reply: ReplySlot) -> None:
        self._reply = reply

    def send(self, _parts: Sequence[ReplyPart], _mute_ms: float = 0) -> None:
        self._reply.close("the reply is lost")

    def skip(self) -> None:
        self._reply.skip()

    def close(self, reason: str) -> None:
        self._reply.close(reason)

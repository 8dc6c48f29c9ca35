"""Requests that go wrong on demand: a reply that is lost, an error instead of the work, a delay.

Stands between a broker's network and its dispatcher, only for requests of clients: what the brokers
say to each other is disturbed by the network, not by name.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.broker.context import Paused
from ottla.broker.testing.refusals import refusal_of
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, RemoteProtocolError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.context import Dispatch, Peer, Reply, ReplyPart
    from ottla.protocol.ports import Clock

_key_of = Struct(">h").unpack_from
_KEY_BYTES = 2


class RequestFault(NamedTuple):
    """The next requests of an API: their replies are lost, or they get an error instead.

    ``error`` None: the work is done, then the connection is closed without a word."""

    number: int
    api_key: int
    error: int | None
    times: int


class FaultyRequests:
    """What goes wrong with one broker's requests. ``dispatch`` is handed to its network."""

    def __init__(
        self,
        behind: Dispatch,
        clients_listener: str,
        clock: Clock,
        on_hit: Callable[[int, str], object],
    ) -> None:
        """``on_hit``: told the number of a fault and what it did."""
        self._behind = behind
        self._listener = clients_listener
        self._clock = clock
        self._on_hit = on_hit
        self._faults: dict[int, tuple[RequestFault, int]] = {}
        self._due: list[int] = []
        # How long a produce waits before it is taken, as behind a disk that is slow to take it.
        self.produce_delay_ms = 0.0

    def add(self, fault: RequestFault) -> None:
        """From the next request on, after the faults that were added before."""
        self._faults[fault.number] = (fault, fault.times)

    def drop(self, number: int) -> None:
        """That fault is over. One that is unknown is fine."""
        self._faults.pop(number, None)

    def clear(self) -> None:
        """All is well again."""
        self._faults.clear()

    def dispatch(self, peer: Peer, frame: memoryview, reply: Reply) -> Any:
        """``context.Dispatch``."""
        if peer.listener != self._listener or len(frame) < _KEY_BYTES:
            return self._behind(peer, frame, reply)
        key = _key_of(frame)[0]
        fault = self._take(key)
        if fault is not None:
            name = ApiKey(key).name
            if fault.error is None:
                self._on_hit(fault.number, f"lost a reply to {name}")
                return self._behind(peer, frame, _LostReply(reply))
            self._on_hit(fault.number, f"refused {name} with {ErrorCode(fault.error).name}")
            try:
                reply.send(refusal_of(frame, fault.error))
            except RemoteProtocolError as error:
                reply.close(str(error))
            return None
        if self.produce_delay_ms and key == ApiKey.PRODUCE:
            return self._later(peer, frame, reply)
        return self._behind(peer, frame, reply)

    def _take(self, key: int) -> RequestFault | None:
        for fault, left in self._faults.values():
            if fault.api_key == key:
                if left == 1:
                    del self._faults[fault.number]
                else:
                    self._faults[fault.number] = (fault, left - 1)
                return fault
        return None

    async def _later(self, peer: Peer, frame: memoryview, reply: Reply) -> None:
        await self._clock.sleep(self.produce_delay_ms)
        outcome = self._behind(peer, frame, reply)
        if isinstance(outcome, Paused):
            outcome = outcome.coroutine
        if outcome is not None:
            await outcome


class _LostReply:
    """``context.Reply``: whatever the answer is, the connection closes instead."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def send(self, _parts: Sequence[ReplyPart], _mute_ms: float = 0) -> None:
        self._reply.close("the reply is lost")

    def skip(self) -> None:
        self._reply.skip()

    def close(self, reason: str) -> None:
        self._reply.close(reason)

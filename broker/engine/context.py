"""What the network hands to the API layer with each request, and what it wants back.

The network parses frames and owns connections; the API layer decides what a frame means. These
types are all that either knows of the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from ottla.protocol.data_classes import dataclass
from ottla.protocol.ports import Buffer, FileRegion

ReplyPart = Buffer | FileRegion

# An append releases parked requests, these are answered, and the answers sent.
EVENT_ROUNDS = 3


class RequestCaller(Protocol):
    """Who asks, from where, and over which listener: a request's context, or its connection."""

    @property
    def principal(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def listener(self) -> str: ...


class ClientPeer(Protocol):
    """The other end of one connection, as far as handlers may know it."""

    connection_id: str
    listener: str
    client_host: str
    principal: str

    @property
    def closed(self) -> bool:
        """True once the connection is gone; replies to it are dropped."""

    @property
    def has_hung_up(self) -> bool:
        """Whether the client has gone, though the connection is not read from and so not closed.

        A call into the kernel: for what waits for long, and not for each request."""

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call back once when the connection goes (at once if it is gone already)."""

    def mute(self, mute_ms: float) -> None:
        """Read nothing more from the connection for that long (KIP-219)."""


class ReplySlot(Protocol):
    """One request's place in the ordered answers of its connection; used exactly once."""

    def send(self, parts: Sequence[ReplyPart], mute_ms: float = 0) -> None:
        """Answer with these bytes (length prefix excluded), then do not read for ``mute_ms``."""

    def skip(self) -> None:
        """There is no answer (produce with acks=0)."""

    def close(self, reason: str) -> None:
        """Close the connection after the answers before this one have left."""


@dataclass(frozen=True, slots=True)
class Paused:
    """An ordered part that waits for another broker. Its connection's next request must not start
    before it ends, but it holds no handler meanwhile: two brokers
    whose handlers all wait for an answer of the other broker would wait for ever."""

    coroutine: Coroutine[Any, Any, Any]


Dispatch = Callable[[ClientPeer, memoryview, ReplySlot], Coroutine[Any, Any, None] | Paused | None]
"""Handles one whole frame.

None: the ordered part is over, the reply comes now or later. A coroutine: the ordered part had to
suspend, and the connection's next request must not start before it ends; or this as ``Paused``."""


@dataclass(slots=True)
class RequestContext:
    """One request, as handlers, the authorizer and the quotas see it."""

    peer: ClientPeer
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    received_ms: float

    @property
    def principal(self) -> str:
        return self.peer.principal

    @property
    def listener(self) -> str:
        return self.peer.listener

    @property
    def client_host(self) -> str:
        return self.peer.client_host


class EventTurn:
    """What is left to do after the event of a socket, done when it ends.

    Between events it is done soon. Parts that a request has reached only mark what they owe: parked
    requests to ask, connections to send to. A callback of the event loop for each of them costs a
    call into the kernel, and the answer leaves that much later. One per broker."""

    __slots__ = ("_due", "_loop", "is_event")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: list[Callable[[], object]] = []
        # Whether an event is being handled.
        self.is_event = False

    def defer(self, callback: Callable[[], object]) -> None:
        """Call it after the event in progress, outside of the caller, or soon if there is none."""
        if self.is_event:
            self._due.append(callback)
        else:
            self._loop.call_soon(callback)

    def end(self) -> None:
        """The event is over. Other sockets get their turn before what its rest leaves to do."""
        for _ in range(EVENT_ROUNDS):
            if not self._due:
                break
            due, self._due = self._due, []
            for callback in due:
                try:
                    callback()
                except Exception as error:
                    context = {"message": "the rest of an event failed", "exception": error}
                    self._loop.call_exception_handler(context)
        self.is_event = False
        due, self._due = self._due, []
        for callback in due:
            self._loop.call_soon(callback)


def spliced(out: bytearray, regions: list[tuple[int, FileRegion]]) -> list[ReplyPart]:
    """The parts of an encoded answer with file regions at those positions."""
    parts: list[ReplyPart] = []
    view = memoryview(out)
    start = 0
    for position, region in regions:
        if position > start:
            parts.append(view[start:position])
        parts.append(region)
        start = position
    if start < len(out):
        parts.append(view[start:])
    return parts

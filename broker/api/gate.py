"""What a broker that does not serve yet does with requests: the controller's are carried out, all
others wait.

The controller gives the broker its partitions, so it must be heard from the first moment on. A
client that was answered meanwhile would learn of a cluster without topics; one whose connection
was closed at its first request may take that for the refusal of its credentials, and give up. So
the first request of a connection waits, and with it everything behind it on that connection:
until the broker serves, for ``WAIT_MS_MAX`` at most, ``WAITING_MAX`` connections at a time. Beyond
that a connection is closed. A connection that waits is not read from, so the gate asks every
``LOOK_MS`` whether its client has gone, and gives its place to another.

Other brokers are recognized by their client id (``membership/peers.py``), and only their first
question, which versions are served, is answered early.
"""

from __future__ import annotations

import asyncio
import re
from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.context import Paused
from ottla.protocol.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.engine.context import ClientPeer, Dispatch, ReplySlot
    from ottla.protocol.ports import Clock, Timer

# As long as Java clients wait for an answer. A broker that is not ready within a minute stops.
WAIT_MS_MAX = 30_000.0
# Each holds its request in a buffer of 64 KiB; larger requests count against
# queued.max.request.bytes.
WAITING_MAX = 1_000
# A look at a thousand connections takes some milliseconds.
LOOK_MS = 500.0

_OPEN_TO = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
    }
)
_key_of = Struct(">h").unpack_from
_KEY_BYTES = 2
_API_VERSIONS = Struct(">hhih")


class Gate:
    """Stands before the dispatcher for as long as the broker is starting."""

    def __init__(self, node_id: int, clock: Clock) -> None:
        self._is_of_a_broker = re.compile(rf"[a-z]+-\d+-to-{node_id}".encode()).fullmatch
        self._clock = clock
        # Each is told why its connection is to be closed, or "" when it is to go on.
        self._waiting: dict[asyncio.Future[str], ClientPeer] = {}
        self._look_timer: Timer | None = None
        self._end: str | None = None

    @property
    def waiting_count(self) -> int:
        """Requests that wait for the broker to serve."""
        return len(self._waiting)

    def guard(self, behind: Dispatch) -> Dispatch:
        """The dispatcher with the gate before it."""

        def dispatch(peer: ClientPeer, frame: memoryview, reply: ReplySlot) -> Any:
            if self._lets_in(frame):
                return behind(peer, frame, reply)
            if len(self._waiting) >= WAITING_MAX:
                reply.close("the broker is starting, and too many wait for it")
                return None
            return Paused(self._wait(behind, peer, frame, reply))

        return dispatch

    def open(self) -> None:
        """The broker serves: everything that waits goes on."""
        self._tell("")

    def close(self) -> None:
        """The broker stops: connections that wait are closed. May be called again."""
        self._tell("the broker is stopping")

    def _lets_in(self, frame: memoryview) -> bool:
        if self._end == "":
            return True
        if len(frame) < _KEY_BYTES:
            # Not worth waiting: the dispatcher closes the connection.
            return True
        key = _key_of(frame)[0]
        if key != ApiKey.API_VERSIONS or len(frame) < _API_VERSIONS.size:
            return key in _OPEN_TO
        start = _API_VERSIONS.size
        size = _API_VERSIONS.unpack_from(frame)[3]
        return size > 0 and bool(self._is_of_a_broker(frame[start : start + size]))

    async def _wait(
        self, behind: Dispatch, peer: ClientPeer, frame: memoryview, reply: ReplySlot
    ) -> None:
        end = self._end
        if end is None:
            end = await self._told(peer)
        if peer.closed:
            return
        if end:
            reply.close(end)
            return
        outcome = behind(peer, frame, reply)
        if isinstance(outcome, Paused):
            outcome = outcome.coroutine
        if outcome is not None:
            await outcome

    async def _told(self, peer: ClientPeer) -> str:
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[told] = peer
        if self._look_timer is None:
            self._look_later()
        timer = self._clock.call_at(
            self._clock.now_ms() + WAIT_MS_MAX,
            lambda: self._settle(told, "the broker has not started in time"),
        )
        try:
            return await told
        finally:
            timer.cancel()
            self._waiting.pop(told, None)

    def _look_later(self) -> None:
        self._look_timer = self._clock.call_at(self._clock.now_ms() + LOOK_MS, self._look)

    def _look(self) -> None:
        """Close the connections of clients that have gone."""
        self._look_timer = None
        for told, peer in self._waiting.items():
            if peer.has_hung_up:
                self._settle(told, "the client has gone")
        if self._waiting:
            self._look_later()

    def _tell(self, end: str) -> None:
        self._end = end
        for told in self._waiting:
            self._settle(told, end)

    def _settle(self, told: asyncio.Future[str], end: str) -> None:
        if not told.done():
            told.set_result(end)

"""Serves the embedded store of this process to sessions in other processes.

Answers and watch events of a session leave in the order of the store's queue, so that no event
overtakes the answer of the read that set the watch. A session outlives its connection until the
server has heard nothing from it for its timeout. A connection that resumes the session ends the
previous connection and discards its unread requests: none of them is executed after the session has
been resumed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.served import messages
from ottla.coordinator.store.served.messages import BadMessage, CloseRequest, Open
from ottla.coordinator.store.served.silence import Silence
from ottla.coordinator.store.served.stream import MessageStream
from ottla.coordinator.store.store import (
    ConnectionLoss,
    GroupFailed,
    SessionState,
    StoreError,
    WatchEvent,
)
from ottla.coordinator.store.tree import in_group
from ottla.coordinator.store.zookeeper_requests import (
    Children,
    Exists,
    Get,
    GetRights,
    MultiOperation,
    Request,
    SetRights,
    Sync,
)
from ottla.protocol.ports import SocketOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.embedded import EmbeddedSession, EmbeddedStore, Spawn
    from ottla.coordinator.store.tree import StepResult, Tree
    from ottla.protocol.ports import Address, Clock, Listener, Net, Socket, Timer

logger = logging.getLogger("ottla.store")

# Bounds of a session's timeout: shorter or longer ones would hurt the other sessions.
TIMEOUT_MS_MIN, TIMEOUT_MS_MAX = 500, 600_000
# Pause before the next attempt on a full disk, or without a free descriptor.
AGAIN_MS = 1_000.0


class StoreServer:
    """Owned by the process that has the store; ``listen`` and ``close`` once each."""

    def __init__(self, store: EmbeddedStore, net: Net, clock: Clock, spawn: Spawn) -> None:
        self.store = store
        self.spawn = spawn
        self.clock = clock
        self.silence = Silence(clock.now_ms())
        self._net = net
        self._listener: Listener | None = None
        self._timer: Timer | None = None
        self._is_closed = False
        self._served: dict[int, _Served] = {}
        self._connections: dict[_Connection, None] = {}

    def listen(self, address: Address) -> None:
        """Serve from now on. Raises OSError."""
        self._listener = self._net.listen(address, SocketOptions())
        self._listener.on_readable(self._accept)
        self._look_later()

    async def close(self) -> None:
        """End all connections; the sessions end with the store. May be called again."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.stream.close()
        self._connections.clear()

    async def end_sessions_of(self, owner: int) -> None:
        """The process of that owner has exited: end its sessions without waiting for their
        timeout."""
        ended = [one.session.session_id for one in self._served.values() if one.owner == owner]
        await asyncio.gather(*map(self.end_session, ended))

    async def end_session(self, session_id: int) -> None:
        """End a session; on a full disk its ephemeral znodes go when there is room again."""
        is_told = False
        while self.store.failure is None and not self._is_closed:
            try:
                await self.store.expire(session_id)
            except ConnectionLoss as error:
                if not is_told:
                    logger.error("the end of session %#x is not stored yet: %s", session_id, error)
                is_told = True
                await self.clock.sleep(AGAIN_MS)
            else:
                return

    # ---- connections ----

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            socket = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of descriptors the listener stays readable: accepting again would spin (N-15).
            logger.warning("no connection to the store is accepted for a second: %s", error)
            self._listener.on_readable(None)
            self.clock.call_at(self.clock.now_ms() + AGAIN_MS, self._accept_again)
            return
        self._connections[_Connection(self, socket)] = None

    def _accept_again(self) -> None:
        if self._listener is not None:
            self._listener.on_readable(self._accept)

    def forget(self, connection: _Connection) -> None:
        """The connection is gone."""
        self._connections.pop(connection, None)

    async def open(self, connection: _Connection, wanted: Open) -> None:
        """Give the connection a new session, or resume the one that it names."""
        if wanted.session_id == 0:
            timeout_ms = min(max(wanted.timeout_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)
            try:
                session = await self.store.connect(timeout_ms)
            except StoreError as error:
                connection.end(str(error))
                return
            served = _Served(session, wanted.owner)
            self._served[session.session_id] = served
            self.silence.begin(session.session_id, timeout_ms, self.clock.now_ms())
            session.on_state(lambda _state: self._on_end(served))
        else:
            found = self._served.get(wanted.session_id)
            if found is None:
                connection.end("the session is over")
                return
            # Its owner counts from this request on, as from each that is answered (C-06).
            self.silence.hear(wanted.session_id, self.clock.now_ms())
            served = found
        served.attach(connection)

    def _on_end(self, served: _Served) -> None:
        session_id = served.session.session_id
        self._served.pop(session_id, None)
        self.silence.end(session_id)
        if served.connection is not None:
            served.connection.end("the session is over")

    # ---- silence ----

    def _look_later(self) -> None:
        interval_ms = self.silence.interval_ms()
        self._timer = self.clock.call_at(
            self.clock.now_ms() + interval_ms, lambda: self._look(interval_ms)
        )

    def _look(self, interval_ms: float) -> None:
        # Process arrived messages before checking timeouts.
        for connection in list(self._connections):
            connection.stream.read()
        for session_id in self.silence.expired(self.clock.now_ms(), interval_ms):
            logger.warning("session %#x ends: no message arrived within its timeout", session_id)
            self.spawn("session end", self.end_session(session_id))
            self.silence.end(session_id)
        self._look_later()


class _Served:
    """A session of another process, and its connection if it has one."""

    def __init__(self, session: EmbeddedSession, owner: int) -> None:
        self.session = session
        self.owner = owner
        self.connection: _Connection | None = None

    def attach(self, connection: _Connection) -> None:
        """The connection has the session from now on, without watches."""
        if self.connection is not None:
            self.connection.stream.close()
        self.session.watches.clear()
        self.connection = connection
        connection.on_attached(self)


class _Connection:
    """One connection; its first message names its session."""

    def __init__(self, server: StoreServer, socket: Socket) -> None:
        self._server = server
        self._served: _Served | None = None
        self._is_opening = False
        self.stream = MessageStream(socket, self._on_message, self._on_end)

    def on_attached(self, served: _Served) -> None:
        """It has its session."""
        self._served = served
        session = served.session
        self.stream.send(
            messages.encode_opened(messages.Opened(session.session_id, session.timeout_ms))
        )

    def end(self, reason: str) -> None:
        """The session is over, or there is none."""
        self.stream.send(messages.encode_ended(reason))
        self.stream.close_when_sent()
        self._server.forget(self)

    def on_event(self, event: WatchEvent) -> None:
        """A watch of this connection has fired."""
        self.stream.send(messages.encode_event(event))

    def _on_end(self, reason: str) -> None:
        self._server.forget(self)
        served = self._served
        if served is not None and served.connection is self:
            served.connection = None
            served.session.watches.clear()
            logger.info("session %#x has no connection: %s", served.session.session_id, reason)

    def _on_message(self, message: list[Any]) -> None:
        request = messages.decode_request(message)
        if isinstance(request, Open):
            if self._is_opening:
                raise BadMessage("a second first message")
            self._is_opening = True
            self._server.spawn("session begin", self._server.open(self, request))
            return
        served = self._served
        if served is None or served.connection is not self:
            raise BadMessage("a request without a session")
        session = served.session
        if session.state is not SessionState.CONNECTED:
            return
        self._server.silence.hear(session.session_id, self._server.clock.now_ms())
        if isinstance(request, CloseRequest):
            self._server.spawn("session end", self._server.end_session(session.session_id))
        else:
            self._answer(session, request)

    def _answer(self, session: EmbeddedSession, request: Request) -> None:
        store = self._server.store
        try:
            answer = messages.encode_result(self._do(session, request))
        except StoreError as error:
            answer = messages.encode_error(error)
        store.when_settled(lambda: self._tell(session, answer))

    def _tell(self, session: EmbeddedSession, answer: bytes) -> None:
        # A store that has failed ends its sessions: changes that are not durable are not confirmed.
        if session.state is SessionState.CONNECTED and self._server.store.failure is None:
            self.stream.send(answer)

    def _do(self, session: EmbeddedSession, request: Request) -> object:
        """Raises StoreError."""
        store, watches = self._server.store, session.watches
        match request:
            case Get(path, watched):
                return self._read(lambda tree: tree.get(path), watches.watch_node, path, watched)
            case Exists(path, watched):
                return self._read(lambda tree: tree.exists(path), watches.watch_node, path, watched)
            case Children(path, watched):
                return self._read(
                    lambda tree: tree.children(path), watches.watch_children, path, watched
                )
            case Sync():
                return None
            case MultiOperation(operations):
                return in_group(store.write(operations, session.session_id))
            case GetRights() | SetRights():
                raise StoreError("the znodes of this store have no rights of their own")
            case _:
                try:
                    results: list[StepResult] = store.write((request,), session.session_id)
                except GroupFailed as failed:
                    raise failed.error from None
                return results[0]

    def _read(
        self,
        read: Callable[[Tree], object],
        arm: Callable[[str, Callable[[WatchEvent], object]], None],
        path: str,
        watched: bool,
    ) -> object:
        found = read(self._server.store.read_tree())
        if watched:
            arm(path, self.on_event)
        return found

"""A processor: owns its connections, its queue of new ones and its queue of answers.

It turns readiness into complete frames and answers into bytes; it runs no request, which is the
request channel's work. Processors are roles, not threads: all of them share the event loop.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.network.connection import AcceptedConnection
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.network.connection_parts import ConnectionParts, ListenerParts
    from ottla.broker.network.handshakes import Handshakes
    from ottla.broker.network.reactor import CompiledPoller
    from ottla.broker.network.request import RequestOwner
    from ottla.protocol.ports import Socket, Timer
    from ottla.wire.tls.tls_socket import TlsSocket

logger = logging.getLogger("ottla.network")

SWEEPS_PER_IDLE_LIMIT = 8
SWEEP_MS_MIN = 10.0
SWEEP_MS_MAX = 5_000.0


class _NewConnection(NamedTuple):
    """``principal`` is empty before a TLS handshake. ``accepted_ms`` is of before it, too."""

    socket: Socket
    entrance: ListenerParts
    principal: str
    accepted_ms: float


class Processor:
    """``on_closed`` is told the listener and the host of each connection that has gone."""

    def __init__(
        self,
        name: str,
        connection_parts: ConnectionParts,
        on_closed: Callable[[str, str], object],
        handshakes: Handshakes,
    ) -> None:
        self.name = name
        self.connections: dict[AcceptedConnection, None] = {}
        self.accepted_count = 0
        self.response_count = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self._connection_parts = connection_parts
        self._on_closed = on_closed
        self._handshakes = handshakes
        self.strangers = handshakes.strangers
        self._turn = connection_parts.turn
        # With the principal of those whose handshake is over.
        self._new_connections: deque[_NewConnection] = deque()
        self._answered: list[AcceptedConnection] = []
        self._scheduled: list[AcceptedConnection] = []
        # Inside an event the answers are looked at when it ends; outside of one a callback is
        # needed, one for all that come together.
        self._is_running = False
        self._is_woken = False
        self._is_stopping = False
        self._sweep_timer: Timer | None = None
        self._swept_ms = connection_parts.clock.now_ms()
        self._closed_request_count = 0

    @property
    def request_count(self) -> int:
        """Requests started, on connections open and closed."""
        return self._closed_request_count + sum(
            connection.request_count for connection in self.connections
        )

    @property
    def new_connection_count(self) -> int:
        return len(self._new_connections)

    @property
    def answered_count(self) -> int:
        """Connections with answers that were not looked at yet."""
        return len(self._answered)

    def start(self) -> None:
        """Begin to look for idle connections."""
        settings = self._connection_parts.settings
        interval_ms = settings.request_read_ms_max
        if settings.connections_idle_ms_max > 0:
            interval_ms = min(interval_ms, settings.connections_idle_ms_max)
        interval_ms = max(SWEEP_MS_MIN, min(interval_ms / SWEEPS_PER_IDLE_LIMIT, SWEEP_MS_MAX))
        self._arm_sweep(interval_ms)

    def assign(self, socket: Socket, entrance: ListenerParts) -> None:
        """Take a connection that the acceptor has accepted."""
        now_ms = self._connection_parts.clock.now_ms()
        self._new_connections.append(_NewConnection(socket, entrance, "", now_ms))
        self._wake()

    def respond(self, connection: AcceptedConnection) -> None:
        connection.is_dirty = True
        self._answered.append(connection)
        if not self._is_running:
            self._wake()

    def schedule(self, connection: AcceptedConnection) -> None:
        if not connection.is_scheduled:
            connection.is_scheduled = True
            self._scheduled.append(connection)
            self._wake()

    def readiness(self, connection: AcceptedConnection, socket: Socket) -> Callable[[], object]:
        # Of the compiled reactor (reactor.py); other sockets have none.
        poller: CompiledPoller | None = getattr(socket, "poller", None)
        compiled = poller.readiness(connection, self) if poller is not None else None
        return compiled or partial(self._on_event, connection, connection.receive)

    def room(self, connection: AcceptedConnection) -> Callable[[], object]:
        return partial(self._on_event, connection, connection.on_room)

    def forget(
        self, connection: AcceptedConnection, reason: str, callbacks: list[Callable[[], object]]
    ) -> None:
        logger.debug("connection %s closed: %s", connection.connection_id, reason)
        self.connections.pop(connection, None)
        self._closed_request_count += connection.request_count
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("on_close of connection %s failed", connection.connection_id)
        self._on_closed(connection.listener, connection.client_host)

    def stop(self, reason: str) -> None:
        """Start no more requests; each connection closes when its answers have left."""
        self._is_stopping = True
        while self._new_connections:
            new = self._new_connections.popleft()
            new.socket.close()
            self._on_closed(new.entrance.spec.name, new.socket.peer.host)
        for connection in list(self.connections):
            connection.end(reason)

    def abort(self, reason: str) -> None:
        """Close everything now."""
        self.stop(reason)
        for connection in list(self.connections):
            connection.close(reason)
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    # Events.

    def _on_event(self, connection: AcceptedConnection, step: Callable[[], None]) -> None:
        self._is_running = self._turn.is_event = True
        try:
            step()
        except Exception as error:
            self._on_failure(connection, error)
        try:
            if self._answered:
                self._process_answers()
        finally:
            self._is_running = False
            self._turn.end()

    def _step(self, connection: RequestOwner, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            self._on_failure(connection, error)

    def _on_failure(self, connection: RequestOwner, error: Exception) -> None:
        if isinstance(error, OSError):
            connection.close(f"{error}")
            return
        # A fault of ours in one connection must not take the others with it.
        logger.error("connection %s failed", connection.connection_id, exc_info=error)
        connection.close(f"internal error: {error}")

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._turn.defer(self._run)

    def _run(self) -> None:
        self._is_woken = False
        self._is_running = True
        try:
            self._configure_new_connections()
            scheduled, self._scheduled = self._scheduled, []
            for connection in scheduled:
                connection.is_scheduled = False
                if not connection.blocked:
                    self._step(connection, connection.serve)
            self._process_answers()
        finally:
            self._is_running = False

    def _configure_new_connections(self) -> None:
        while self._new_connections:
            socket, entrance, principal, accepted_ms = self._new_connections.popleft()
            if entrance.spec.tls is not None and not principal:
                on_end = partial(self._secured, socket, entrance, accepted_ms)
                self._handshakes.begin(socket, entrance, on_end)
                continue
            self.accepted_count += 1
            name = f"{socket.local}-{socket.peer}-{self.name}.{self.accepted_count}"
            try:
                connection = AcceptedConnection(
                    socket, entrance, self._connection_parts, self, name, accepted_ms
                )
            except Exception:
                # Whatever a transport may trip over, its descriptor must not leak (N-15).
                logger.exception("connection %s could not be set up", name)
                socket.close()
                self._on_closed(entrance.spec.name, socket.peer.host)
                continue
            if principal and entrance.spec.login is None:
                connection.principal = principal
            self.connections[connection] = None
            self._step(connection, connection.serve)

    def _secured(
        self,
        accepted: Socket,
        entrance: ListenerParts,
        accepted_ms: float,
        secure: TlsSocket | None,
        principal: str,
    ) -> None:
        """A handshake has ended."""
        if secure is not None and not self._is_stopping:
            new = _NewConnection(secure, entrance, principal, accepted_ms)
            self._new_connections.append(new)
            self._wake()
            return
        if secure is not None:
            secure.close()
        self._on_closed(entrance.spec.name, accepted.peer.host)

    def _process_answers(self) -> None:
        """Send what is answered. Closing a connection may answer requests of others: go on until
        there is nothing left."""
        while self._answered:
            answered, self._answered = self._answered, []
            for connection in answered:
                connection.is_dirty = False
                if connection.closed:
                    continue
                try:
                    connection.flush_answers()
                except Exception as error:
                    self._on_failure(connection, error)

    # Time.

    def _arm_sweep(self, interval_ms: float) -> None:
        clock = self._connection_parts.clock
        self._sweep_timer = clock.call_at(
            clock.now_ms() + interval_ms, partial(self._sweep, interval_ms)
        )

    def _sweep(self, interval_ms: float) -> None:
        now_ms = self._connection_parts.clock.now_ms()
        # A process that stood still (a stopped machine) must not call all its peers silent.
        elapsed_ms = min(now_ms - self._swept_ms, 2 * interval_ms)
        self._swept_ms = now_ms
        for connection in list(self.connections):
            reason = self._overdue(connection, elapsed_ms)
            if reason and not connection.closed:
                connection.close(reason)
        self._arm_sweep(interval_ms)

    def _overdue(self, connection: AcceptedConnection, elapsed_ms: float) -> str:
        settings = self._connection_parts.settings
        age = connection.age
        if connection.is_mid_request:
            limit_ms = settings.request_read_ms_max
            if self._connection_parts.budget.is_pressed and connection.intake.is_charged:
                limit_ms = settings.request_read_pressed_ms_max
            if age.is_slow(elapsed_ms, connection.request_count, limit_ms):
                return "a request took too long to arrive"
        if age.is_idle(elapsed_ms, waits_for_us=connection.waits_for_us, settings=settings):
            return "idle for too long"
        return ""

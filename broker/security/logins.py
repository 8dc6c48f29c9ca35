"""All logins of a broker: unfinished logins, open sessions, and their expiry.

A session ends with its connection, when its lifetime is over and the client does not log in again
(KIP-368), and at once when its credential is changed or deleted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.security.listener_logins import ListenerLogins
from ottla.broker.security.pending_logins import PendingLogins
from ottla.coordinator.store.entities import USERS, unquoted
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.security.authenticated import Authenticated
    from ottla.broker.security.credentials import Credentials
    from ottla.broker.security.login import Login, LoginConnection
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.protocol.ports import Ports, Timer

logger = logging.getLogger("ottla.security")

# The login deadline does not run while the broker itself keeps the connection waiting.
PATIENCE_MS = 1_000.0
# The inter-broker listener allows one address this many times as many unfinished logins.
BROKERS_PER_IP = 4


class Session(NamedTuple):
    """An authenticated connection."""

    login: Login
    authenticated: Authenticated


class Logins:
    """Owned by the server."""

    def __init__(
        self, config: BrokerConfig, credentials: Credentials, ports: Ports, tasks: Tasks
    ) -> None:
        self.credentials = credentials
        self.ports = ports
        self.tasks = tasks
        self.failure_count = 0
        # Called for each login: the connection, the mechanism, the error if it failed, and the name
        # that a failed client sent.
        self.on_login: Callable[[Any, str, str | None, str], object] = lambda *_login: None
        self._config = config
        self._pending = PendingLogins(
            config.authentication_max_connections, config.authentication_max_connections_per_ip
        )
        # Clients that do not log in must not lock brokers out of their separate listener, so its
        # connections are counted separately. Several brokers may share one address.
        self._pending_brokers = PendingLogins(
            config.authentication_max_connections,
            config.authentication_max_connections_per_ip * BROKERS_PER_IP,
        )
        self._sessions: dict[Any, Session] = {}
        self._timers: dict[Any, Timer] = {}

    def entrance_of(self, listener: str, *, is_exempt: bool) -> Callable[[Any, Any], Any] | None:
        """Return the entrance of new connections of that listener, None if it does not use SASL."""
        settings = self._config.sasl.get(listener)
        if settings is None:
            return None
        return ListenerLogins(settings, self, is_exempt=is_exempt).enter

    def on_metadata(self, delta: MetadataDelta) -> None:
        """End the sessions whose credentials in the store have changed."""
        for entity in delta.configs:
            if entity.entity_type != USERS:
                continue
            user = unquoted(entity.name)
            before = delta.before.configs.get(entity, {})
            after = delta.after.configs.get(entity, {})
            for mechanism in SCRAM_MECHANISMS:
                old = before.get(mechanism)
                if user is not None and old is not None and old != after.get(mechanism):
                    self.end_sessions((mechanism, user), "the user's credential has changed")

    @property
    def pending_count(self) -> int:
        """Connections that have not authenticated yet."""
        return len(self._pending) + len(self._pending_brokers)

    def session_of(self, connection: object) -> Session | None:
        """Return the session of an authenticated connection, None on listeners without SASL."""
        return self._sessions.get(connection)

    # The life of a connection.

    def begin(
        self, connection: LoginConnection, listener: ListenerLogins, *, is_exempt: bool
    ) -> None:
        """Register a new connection, which must log in before a deadline counted from its
        acceptance: neither its TLS handshake nor slow reading extends it."""
        connection.on_close(lambda: self._forget(connection))
        pending = self._pending_brokers if is_exempt else self._pending
        oldest: Any = pending.add(connection)
        if oldest is not None:
            listener.told(oldest, "too many connections log in at one time")
            oldest.close("too many connections log in at one time")
            self._forget(oldest)
        spent_ms = self.ports.clock.now_ms() - connection.accepted_ms
        assert spent_ms >= 0, "the clock is monotonic"
        self._set_timer(
            connection,
            max(0.0, self._config.authentication_timeout_ms - spent_ms),
            lambda: self._on_late(connection, listener),
        )

    def _on_late(self, connection: LoginConnection, listener: ListenerLogins) -> None:
        if connection.waits_for_us:
            self._set_timer(connection, PATIENCE_MS, lambda: self._on_late(connection, listener))
            return
        listener.told(connection, "it took too long")
        connection.close("the login took too long")

    def on_session(
        self,
        connection: LoginConnection,
        login: Login,
        authenticated: Authenticated,
        lifetime_ms: float,
    ) -> None:
        """The connection is authenticated for that many milliseconds; 0 means without limit."""
        self._pending.remove(connection)
        self._pending_brokers.remove(connection)
        self._cancel_timer(connection)
        connection.principal = f"User:{authenticated.user}"
        self._sessions[connection] = Session(login, authenticated)
        if lifetime_ms > 0:
            self._set_timer(connection, lifetime_ms, lambda: self._on_expired(connection))

    def _on_expired(self, connection: LoginConnection) -> None:
        self._sessions[connection].login.expire()

    def begin_again(self, connection: object, mechanism: str) -> bool:
        """A client logs in again on its connection; False if it has no session, or used another
        mechanism before."""
        session = self._sessions.get(connection)
        if session is None or mechanism != session.login.mechanism:
            return False
        session.login.begin(mechanism)
        session.login.stand_before()
        return True

    def end_sessions(self, credential: tuple[str, str], reason: str) -> None:
        """Close the connections whose credential is no longer valid."""
        for connection, session in list(self._sessions.items()):
            if session.authenticated.credential == credential:
                logger.info("a session of %s ends: %s", connection.principal, reason)
                connection.close(reason)

    def _forget(self, connection: Any) -> None:
        self._pending.remove(connection)
        self._pending_brokers.remove(connection)
        self._cancel_timer(connection)
        self._sessions.pop(connection, None)

    def _set_timer(self, connection: Any, delay_ms: float, callback: Any) -> None:
        self._cancel_timer(connection)
        clock = self.ports.clock
        self._timers[connection] = clock.call_at(clock.now_ms() + delay_ms, callback)

    def _cancel_timer(self, connection: Any) -> None:
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

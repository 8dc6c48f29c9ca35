"""Logins of one listener: mechanisms, limits, and the handling of success and failure."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.security.exchanges import PlainExchange, ScramExchange
from ottla.broker.security.failure_delays import FailureDelays
from ottla.broker.security.login import Login
from ottla.protocol.frames import KafkaFraming
from ottla.protocol.sasl.exchange import OAUTHBEARER, PLAIN
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.security.authenticated import Authenticated
    from ottla.broker.security.bearer_tokens import BearerExchange, BearerTokens
    from ottla.broker.security.credentials import Credentials
    from ottla.broker.security.exchanges import ServerExchange
    from ottla.broker.security.login import LoginConnection
    from ottla.coordinator.configs.sasl_settings import SaslSettings
    from ottla.protocol.ports import Ports

logger = logging.getLogger("ottla.security")

# Longer reasons contain text from the client.
_REASON_MAX = 300


class LoginLedger(Protocol):
    """All logins of the broker, as a listener sees them."""

    credentials: Credentials
    ports: Ports
    tasks: Tasks
    failure_count: int
    on_login: Callable[[Any, str, str | None, str], object]

    def begin(self, connection: Any, listener: Any, *, is_exempt: bool) -> None: ...

    def on_session(
        self, connection: Any, login: Any, authenticated: Authenticated, lifetime_ms: float
    ) -> None: ...


def _bearer_tokens() -> type[BearerTokens]:
    """Imported only by brokers that accept tokens: it imports the standard library's HTTP
    client."""
    from ottla.broker.security.bearer_tokens import BearerTokens

    return BearerTokens


def _bearer_exchange() -> type[BearerExchange]:
    from ottla.broker.security.bearer_tokens import BearerExchange

    return BearerExchange


class ListenerLogins:
    """Logins of one SASL listener; each new connection calls ``enter``."""

    def __init__(self, settings: SaslSettings, logins: LoginLedger, *, is_exempt: bool) -> None:
        self.settings = settings
        self.mechanisms = settings.mechanisms
        self.tasks: Tasks = logins.tasks
        self._logins = logins
        self._is_exempt = is_exempt
        self._delays = FailureDelays(settings.failure_delay_ms)
        self._framing = KafkaFraming(settings.token_bytes_max)
        self._bearer: BearerTokens | None = None
        if OAUTHBEARER in settings.mechanisms:
            ports = logins.ports
            self._bearer = _bearer_tokens()(settings.bearer, ports.clock, ports.offload)

    def enter(self, connection: LoginConnection, behind: Any) -> Any:
        """Enter a new connection of the listener, which logs in before its channel is opened."""
        login = Login(connection, behind, self)
        self._logins.begin(connection, self, is_exempt=self._is_exempt)
        return login.entrance

    def entrance(self, login: Login, behind: Any) -> Any:
        """Return the listener's entrance with the login before its channel."""
        spec = replace(behind.spec, framing=self._framing)
        return replace(behind, spec=spec, channel=login)

    def exchange(self, mechanism: str) -> ServerExchange:
        """Return the broker's side of a login by an enabled mechanism."""
        logins = self._logins
        if mechanism == PLAIN:
            return PlainExchange(logins.credentials, self.settings.listener, logins.ports.offload)
        if mechanism == OAUTHBEARER:
            assert self._bearer is not None, "the mechanism is enabled"
            return _bearer_exchange()(self._bearer)
        return ScramExchange(SCRAM_MECHANISMS[mechanism], logins.credentials, logins.ports.random)

    def on_success(
        self, login: Login, connection: LoginConnection, authenticated: Authenticated
    ) -> int:
        """Set the connection's user; return the session lifetime in milliseconds, 0 for no
        limit."""
        self._delays.succeeded(connection.client_host)
        limit_ms = self.settings.reauth_ms[login.mechanism]
        if authenticated.expires_ms is not None:
            left_ms = max(1, authenticated.expires_ms - self._logins.ports.clock.wall_ms())
            limit_ms = min(limit_ms, left_ms) if limit_ms > 0 else left_ms
        self._logins.on_session(connection, login, authenticated, max(0, limit_ms))
        self._logins.on_login(connection, login.mechanism, None, "")
        return max(0, limit_ms)

    def on_failure(
        self, connection: LoginConnection, reason: str, mechanism: str, user: str
    ) -> float:
        """Count a failed login, with the user that the client claimed, if any; return the delay of
        its answer in milliseconds."""
        self.told(connection, reason, mechanism, user)
        ports = self._logins.ports
        return self._delays.failed(
            connection.client_host, ports.clock.now_ms(), ports.random.random()
        )

    def told(
        self, connection: LoginConnection, reason: str, mechanism: str = "", user: str = ""
    ) -> None:
        """Log one line about a refused client."""
        self._logins.failure_count += 1
        self._logins.on_login(connection, mechanism or "SASL", reason[:_REASON_MAX], user)
        # The audit log limits the lines of one address: an attacker must not fill the disk.
        logger.debug(
            "no login of %s on %s: %s",
            connection.client_host,
            connection.listener,
            reason[:_REASON_MAX],
        )

    def later(self, delay_ms: float, callback: Callable[[], object]) -> None:
        """Call back after the delay."""
        clock = self._logins.ports.clock
        if delay_ms <= 0:
            callback()
        else:
            clock.call_at(clock.now_ms() + delay_ms, callback)

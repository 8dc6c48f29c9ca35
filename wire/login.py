"""The login of a connection by SASL, and its renewal before the session ends (KIP-368)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.api import declare
from ottla.wire.clock import detached
from ottla.wire.errors import AuthenticationFailed, TransportError

if TYPE_CHECKING:
    from ottla.protocol.ports import Clock, Timer
    from ottla.wire.connection import Connection
    from ottla.wire.sasl import ClientSasl

HANDSHAKE = declare(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse, 1, 1)
AUTHENTICATE = declare(
    ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest, SaslAuthenticateResponse, 0, 2
)
# Share of the session after which the client renews it, as in Kafka's client.
RENEWED_AFTER = 0.85
# A peer that continues to send challenges is not a broker.
STEPS_MAX = 5


async def log_in(connection: Connection, sasl: ClientSasl, clock: Clock, timeout_ms: float) -> None:
    """Authenticate, and renew the session for as long as the connection is open.

    Raises AuthenticationFailed, TransportError."""
    lifetime_ms = await _authenticate(connection, sasl, timeout_ms)
    if lifetime_ms > 0:
        _Renewals(connection, sasl, clock, timeout_ms).plan(lifetime_ms)


async def _authenticate(connection: Connection, sasl: ClientSasl, timeout_ms: float) -> float:
    """The lifetime of the session in milliseconds, 0 for no end."""
    try:
        exchange = await sasl.begin()
        await _choose(connection, sasl, timeout_ms)
        token: bytes | None = exchange.first()
        lifetime_ms = 0.0
        for _ in range(STEPS_MAX):
            if token is None:
                return lifetime_ms
            version = connection.version_of(AUTHENTICATE)
            request = SaslAuthenticateRequest(token)
            answer = await connection.ask(AUTHENTICATE, version, request, timeout_ms)
            if answer.error_code != ErrorCode.NONE:
                raise KafkaError(error_code(answer.error_code), answer.error_message)
            lifetime_ms = answer.session_lifetime_ms
            token = exchange.next(bytes(answer.auth_bytes))
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker does not come to an end")
    except KafkaError as error:
        raise AuthenticationFailed(connection.address, _reason(error, sasl)) from error


async def _choose(connection: Connection, sasl: ClientSasl, timeout_ms: float) -> None:
    request = SaslHandshakeRequest(sasl.mechanism)
    answer = await connection.ask(HANDSHAKE, HANDSHAKE.versions.last, request, timeout_ms)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"its listener offers the mechanisms {offered}: set sasl.mechanism to one of them",
        )
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(error_code(answer.error_code))


def _reason(error: KafkaError, sasl: ClientSasl) -> str:
    """Return one sentence: the broker's message, and what to check."""
    if error.code is ErrorCode.ILLEGAL_SASL_STATE:
        return (
            "its listener does not use SASL: set security.protocol to PLAINTEXT or SSL, or use the "
            "address of a SASL listener"
        )
    whose = f" of {sasl.user!r}" if sasl.user else ""
    text = f"the login{whose} by {sasl.mechanism} failed: {error.message}"
    if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED and sasl.user:
        text += " (check sasl.username, sasl.password and sasl.mechanism)"
    return text


class _Renewals:
    """Renews the session of one connection until the connection ends."""

    def __init__(
        self, connection: Connection, sasl: ClientSasl, clock: Clock, timeout_ms: float
    ) -> None:
        self._connection = connection
        self._sasl = sasl
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        connection.on_close(self._stop)

    def plan(self, lifetime_ms: float) -> None:
        """Renew before the lifetime is over."""
        due_ms = self._clock.now_ms() + lifetime_ms * RENEWED_AFTER
        self._timer = self._clock.call_at(due_ms, self._start)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _start(self) -> None:
        if not self._connection.closed:
            self._task = asyncio.get_running_loop().create_task(
                self._renew(), name=f"ottla-login at {self._connection.address}", context=detached()
            )

    async def _renew(self) -> None:
        """Log in again; other requests wait, since the broker accepts only the login meanwhile."""
        connection = self._connection
        connection.hold()
        try:
            lifetime_ms = await _authenticate(connection, self._sasl, self._timeout_ms)
        except TransportError as error:
            connection.close(error.reason)
        else:
            if lifetime_ms > 0:
                self.plan(lifetime_ms)
        finally:
            connection.hold(is_over=True)

"""The login of one connection; the request channel is opened only after it has succeeded.

Before that the dispatcher sees no request of a SASL listener except ApiVersions. After it, the
connection's frames go to the request channel directly, so a request costs no more than on a
PLAINTEXT listener. The connection decides after each token where its next frame goes: a frame that
the client sends after its last token, even in the same segment, is served as the authenticated user
or not at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.engine.context import ClientPeer
from ottla.broker.security.login_states import (
    TOKENS_MAX,
    VERSION_REQUESTS_MAX,
    LoginState,
    LoginStep,
    step_of,
)
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decode, encoder
from ottla.protocol.errors import ErrorCode, KafkaError, RemoteProtocolError
from ottla.protocol.headers import decode_request_header, response_header
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.security.authenticated import Authenticated
    from ottla.broker.security.exchanges import ServerExchange
    from ottla.protocol.ports import Buffer

logger = logging.getLogger("ottla.security")

_HANDSHAKE_VERSION_MAX = 1
_AUTHENTICATE_VERSION_MAX = 2
_FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED


class LoginConnection(ClientPeer, Protocol):
    """The connection, as its login knows it."""

    @property
    def accepted_ms(self) -> float:
        """When the broker accepted the connection, before a TLS handshake, by its monotonic
        clock."""

    @property
    def waits_for_us(self) -> bool: ...

    def enter(self, entrance: Any) -> None:
        """Hand frames to that entrance from now on."""

    def open_lane(self) -> None:
        """The ordered part of the request that started last has ended."""

    def stop_serving(self, reason: str) -> None:
        """Start no more requests."""

    def end(self, reason: str) -> None:
        """Close once the requests so far are answered."""

    def close(self, reason: str) -> None:
        """Drop the connection now."""


class LoginRequest(Protocol):
    """The place of a request in the order of its connection's responses."""

    @property
    def owner(self) -> Any: ...

    def send(self, parts: Sequence[Buffer]) -> None: ...

    def close(self, reason: str) -> None: ...


class FrameTaker(Protocol):
    """The request channel behind the login."""

    @property
    def free(self) -> Sequence[object]: ...

    @property
    def is_full(self) -> bool: ...

    def park(self, connection: Any) -> None: ...

    def submit(self, request: Any, frame: memoryview) -> bool: ...


class LoginListener(Protocol):
    """The listener, as logins of its connections see it."""

    mechanisms: tuple[str, ...]
    tasks: Tasks

    def entrance(self, login: Any, behind: Any) -> Any: ...

    def exchange(self, mechanism: str) -> ServerExchange: ...

    def on_success(self, login: Any, connection: Any, authenticated: Authenticated) -> int: ...

    def on_failure(self, connection: Any, reason: str, mechanism: str, user: str) -> float: ...

    def told(self, connection: Any, reason: str) -> None: ...

    def later(self, delay_ms: float, callback: Callable[[], object]) -> None: ...


class _Asked(NamedTuple):
    """Where the answer to a request of SASL goes."""

    request: Any
    api_key: ApiKey
    version: int
    correlation_id: int


class Login:
    """Login of one connection, from its acceptance to its end."""

    def __init__(self, connection: LoginConnection, behind: Any, logins: LoginListener) -> None:
        self._connection = connection
        self._behind = behind
        self._channel: FrameTaker = behind.channel
        self.listener = logins
        self.entrance = logins.entrance(self, behind)
        self._state = LoginState.START
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        # The name that the refused client sent, for the audit log.
        self._claimed_user = ""
        self._version_requests = 0
        self._tokens = 0
        # Set once the connection has been authenticated.
        self.authenticated: Authenticated | None = None

    # The parts of a request channel that the connection uses.

    @property
    def free(self) -> Sequence[object]:
        return self._channel.free

    @property
    def is_full(self) -> bool:
        return self._channel.is_full

    def park(self, connection: Any) -> None:
        self._channel.park(connection)

    def submit(self, request: LoginRequest, frame: memoryview) -> bool:
        """Take one frame; the result means the same as the request channel's."""
        if self._state is LoginState.RAW_TOKENS:
            return self._take(bytes(frame), _Asked(request, ApiKey.SASL_AUTHENTICATE, -1, 0))
        try:
            (key, version, correlation_id, _client), position = decode_request_header(frame)
        except RemoteProtocolError:
            # A client of Kafka 0.9 sends a GSSAPI token first.
            return self._close(request, "a first message that is not a Kafka request")
        match step_of(self._state, key):
            case LoginStep.TELL_VERSIONS:
                self._version_requests += 1
                if self._version_requests > VERSION_REQUESTS_MAX:
                    return self._close(request, "too many ApiVersions requests before the login")
                return self._channel.submit(request, frame)
            case LoginStep.CLOSE:
                return self._close(request, f"a request (api {key}) before the login")
        asked = _Asked(request, ApiKey(key), version, correlation_id)
        if version not in _versions(asked.api_key):
            return self._close(request, f"api {key} version {version} is not served")
        try:
            return self._of_sasl(asked, frame[position:])
        except RemoteProtocolError as error:
            return self._close(request, f"malformed request (api {key}): {error}")

    def _of_sasl(self, asked: _Asked, body: memoryview) -> bool:
        step = step_of(self._state, asked.api_key)
        if step is LoginStep.CHOOSE_MECHANISM:
            chosen = decode(SaslHandshakeRequest, asked.version, body)
            return self._choose(chosen.mechanism, asked)
        if step is LoginStep.TAKE_TOKEN:
            token = decode(SaslAuthenticateRequest, asked.version, body).auth_bytes
            return self._take(bytes(token), asked)
        reason = f"{asked.api_key.name} in the state: {self._state.value}"
        error = ErrorCode.ILLEGAL_SASL_STATE
        refusal: Any = SaslHandshakeResponse(error)
        if asked.api_key is ApiKey.SASL_AUTHENTICATE:
            refusal = SaslAuthenticateResponse(error, error.text)
        self._refuse(asked, refusal, reason)
        return True

    # The steps.

    def _choose(self, mechanism: str, asked: _Asked) -> bool:
        enabled = self.listener.mechanisms
        before = self._mechanism
        if mechanism not in enabled or (before and mechanism != before):
            self._refuse(
                asked,
                SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(enabled)),
                f"the mechanism {mechanism[:64]!r} is not enabled on this listener"
                if mechanism not in enabled
                else "another mechanism than that of the session",
            )
            return True
        self.begin(mechanism, is_raw=asked.version == 0)
        self._send(asked, SaslHandshakeResponse(ErrorCode.NONE, list(enabled)))
        return True

    def begin(self, mechanism: str, *, is_raw: bool = False) -> None:
        """Expect the tokens of that mechanism."""
        self._mechanism = mechanism
        self._exchange = self.listener.exchange(mechanism)
        self._state = LoginState.RAW_TOKENS if is_raw else LoginState.TOKENS
        self._tokens = 0

    def expire(self) -> None:
        """Expire the session: from now on only a new login is served."""
        if self._exchange is not None:
            # The exchange has begun; the connection serves only its tokens until it ends.
            return
        self._state = LoginState.EXPIRED
        self.stand_before()

    def stand_before(self) -> None:
        """Take the frames of the connection again."""
        self._connection.enter(self.entrance)

    @property
    def mechanism(self) -> str:
        """The mechanism that the client has chosen."""
        return self._mechanism

    def _take(self, token: bytes, asked: _Asked) -> bool:
        self._tokens += 1
        if self._tokens > TOKENS_MAX:
            return self._close(asked.request, "too many tokens in one login")
        step = self.listener.tasks.spawn(
            f"login of {self._connection.connection_id}", self._step(token, asked)
        )
        step.add_done_callback(lambda _task: self._connection.open_lane())
        return False

    async def _step(self, token: bytes, asked: _Asked) -> None:
        exchange = self._exchange
        assert exchange is not None, "a mechanism is chosen"
        try:
            answer, authenticated = await exchange.respond(token)
            if authenticated is not None:
                self._check_same(authenticated)
        except KafkaError as error:
            self._on_failure(error.message, asked)
            return
        except Exception:
            logger.exception("a login by %s failed", self._mechanism)
            self._on_failure("internal error", asked)
            return
        if self._connection.closed:
            return
        lifetime_ms = 0
        if authenticated is not None:
            self._exchange = None
            lifetime_ms = self.listener.on_success(self, self._connection, authenticated)
            self.authenticated = authenticated
            self._connection.enter(self._behind)
        if asked.version < 0:
            asked.request.send((answer,))
            return
        self._send(asked, SaslAuthenticateResponse(ErrorCode.NONE, None, answer, lifetime_ms))

    def _check_same(self, authenticated: Authenticated) -> None:
        before = self.authenticated
        if before is not None and before.user != authenticated.user:
            raise KafkaError(_FAILED, "a re-authentication as another user")

    # The ends.

    def _on_failure(self, reason: str, asked: _Asked) -> None:
        exchange, self._exchange = self._exchange, None
        self._claimed_user = "" if exchange is None else exchange.claimed_user
        if asked.version < 0:
            # Without a response header the broker cannot send an error.
            self._state = LoginState.FAILED
            self._end_later(None, asked.request, reason)
            return
        text = f"Authentication failed: the credentials for SASL/{self._mechanism} are not accepted"
        self._refuse(asked, SaslAuthenticateResponse(_FAILED, text), reason)

    def _refuse(self, asked: _Asked, response: Any, reason: str) -> None:
        self._state = LoginState.FAILED
        self._end_later(_encoded(asked, response), asked.request, reason)

    def _end_later(self, answer: bytes | None, request: Any, reason: str) -> None:
        """Delay the response, and keep only what is needed to send it."""
        connection = self._connection
        connection.stop_serving(reason)
        user = self._claimed_user
        delay_ms = self.listener.on_failure(connection, reason, self._mechanism, user)

        def end() -> None:
            if connection.closed:
                return
            if answer is None:
                request.close(reason)
                return
            request.send((answer,))
            connection.end(reason)

        self.listener.later(delay_ms, end)

    def _close(self, request: LoginRequest, reason: str) -> bool:
        self._state = LoginState.FAILED
        self.listener.told(self._connection, reason)
        request.close(reason)
        return True

    def _send(self, asked: _Asked, response: Any) -> None:
        asked.request.send((_encoded(asked, response),))


def _versions(api_key: ApiKey) -> range:
    last = _HANDSHAKE_VERSION_MAX if api_key is ApiKey.SASL_HANDSHAKE else _AUTHENTICATE_VERSION_MAX
    return range(last + 1)


def _encoded(asked: _Asked, response: Any) -> bytes:
    out = bytearray(response_header(asked.api_key, asked.version)(asked.correlation_id))
    encoder(response.__class__, asked.version)(response, out, [])
    return bytes(out)

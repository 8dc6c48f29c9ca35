"""Logins of connections: a user with a password, or a token."""

from __future__ import annotations

import base64
import inspect
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from ottla.protocol.data_classes import dataclass
from ottla.protocol.sasl.exchange import OAUTHBEARER, PLAIN
from ottla.protocol.sasl.oauthbearer import BearerClient
from ottla.protocol.sasl.plain import PlainClient
from ottla.protocol.sasl.scram import ScramClient
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.wire.real import RealRandom

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ottla.protocol.sasl.exchange import ClientExchange
    from ottla.protocol.secret import Secret

NONCE_BYTES = 24


class ClientSasl(Protocol):
    """Begins the logins of outgoing connections."""

    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str:
        """The user, for messages; empty where only the token contains it."""

    async def begin(self) -> ClientExchange:
        """A new exchange. Raises KafkaError."""


@dataclass(frozen=True, slots=True)
class PasswordSasl:
    """PLAIN or SCRAM. ``is_token``: the user is the id of a delegation token."""

    mechanism: str
    user: str
    password: Secret
    is_token: bool = False

    async def begin(self) -> ClientExchange:
        if self.mechanism == PLAIN:
            return PlainClient(self.user, self.password)
        nonce = base64.b64encode(RealRandom().token(NONCE_BYTES)).decode()
        mechanism = SCRAM_MECHANISMS[self.mechanism]
        return ScramClient(mechanism, self.user, self.password, nonce, is_token=self.is_token)


@dataclass(frozen=True, slots=True)
class TokenSasl:
    """OAUTHBEARER: the function is asked for a token whenever a connection logs in."""

    token: Callable[[], Secret | Awaitable[Secret]]
    extensions: Mapping[str, str] = field(default_factory=dict)
    mechanism: str = OAUTHBEARER
    user: str = ""

    async def begin(self) -> ClientExchange:
        found = self.token()
        if inspect.isawaitable(found):
            found = await found
        return BearerClient(found, dict(self.extensions))

"""The broker's side of each mechanism: tokens in, tokens out, and at the end a user.

A step may wait for a thread, because checking a password or a signature takes milliseconds.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Protocol

from ottla.broker.security.authenticated import Authenticated
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.exchange import PLAIN, failed
from ottla.protocol.sasl.plain import parse_plain
from ottla.protocol.sasl.scram import ScramServer
from ottla.protocol.sasl.scram_record import (
    SCRAM_SHA_256,
    is_password,
    unknown_user_record,
)

if TYPE_CHECKING:
    from ottla.broker.security.credentials import Credentials
    from ottla.protocol.ports import Offload, Random
    from ottla.protocol.sasl.scram_record import ScramMechanism

NONCE_BYTES = 24


class ServerStep(NamedTuple):
    """The broker's next token; with ``authenticated`` it is the last one."""

    token: bytes
    authenticated: Authenticated | None = None


class ServerExchange(Protocol):
    """One login by one mechanism."""

    async def respond(self, token: bytes) -> ServerStep:
        """The step after the client's token. Raises KafkaError."""


class PlainExchange:
    """Checks a password against the record of it."""

    def __init__(self, credentials: Credentials, listener: str, offload: Offload) -> None:
        self._credentials = credentials
        self._listener = listener
        self._offload = offload

    async def respond(self, token: bytes) -> ServerStep:
        user, password = parse_plain(token)
        known = self._credentials.of_plain(self._listener, user)
        if known is None:
            record = unknown_user_record(SCRAM_SHA_256, self._credentials.unknown_key, user)
            await self._offload.run(is_password, SCRAM_SHA_256, record, password)
            raise failed(f"PLAIN: the user {user!r} is unknown")
        mechanism, record = known
        if not await self._offload.run(is_password, mechanism, record, password):
            raise failed(f"PLAIN: the password of {user!r} is wrong")
        return ServerStep(b"", Authenticated(user, (PLAIN, user)))


class ScramExchange:
    """Two steps, each a few hashes."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials, random: Random) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        nonce = base64.b64encode(random.token(NONCE_BYTES)).decode()
        self._server = ScramServer(mechanism, nonce)
        self._claimed: Authenticated | None = None

    async def respond(self, token: bytes) -> ServerStep:
        if self._claimed is not None:
            return ServerStep(self._server.finish(token), self._claimed)
        user, is_token = self._server.claim(token)
        mechanism, credentials = self._mechanism, self._credentials
        if is_token:
            known = credentials.of_token(mechanism, user)
        else:
            await credentials.wait_until_read()
            found = credentials.of_scram(mechanism, user)
            claimed = Authenticated(user, (mechanism.name, user))
            known = None if found is None else (found, claimed)
        record = unknown_user_record(mechanism, credentials.unknown_key, user)
        if known is not None:
            record = known[0]
        self._claimed = Authenticated("", ("", "")) if known is None else known[1]
        return ServerStep(self._server.challenge(record, is_genuine=known is not None))

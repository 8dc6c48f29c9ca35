"""The broker's side of each SASL mechanism: it exchanges tokens until the user is known.

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
    from ottla.protocol.sasl.scram import ScramClaim
    from ottla.protocol.sasl.scram_record import ScramMechanism, ScramRecord

NONCE_BYTES = 24


class ServerStep(NamedTuple):
    """The broker's next token; the token with ``authenticated`` is the last one."""

    token: bytes
    authenticated: Authenticated | None = None


class ServerExchange(Protocol):
    """One login by one mechanism.

    ``claimed_user`` is the name that the client sent, for the audit log; "" before that."""

    claimed_user: str

    async def respond(self, token: bytes) -> ServerStep:
        """Return the step that answers the client's token. Raises KafkaError."""


class PlainExchange:
    """Checks a password against the record of it."""

    def __init__(self, credentials: Credentials, listener: str, offload: Offload) -> None:
        self._credentials = credentials
        self._listener = listener
        self._offload = offload
        self.claimed_user = ""

    async def respond(self, token: bytes) -> ServerStep:
        user, password = parse_plain(token)
        self.claimed_user = user
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
        self.claimed_user = ""
        self._mechanism = mechanism
        self._credentials = credentials
        nonce = base64.b64encode(random.token(NONCE_BYTES)).decode()
        self._server = ScramServer(mechanism, nonce)
        self._claim: ScramClaim | None = None
        self._record: ScramRecord | None = None
        # The user of a valid proof; None if no proof is accepted.
        self._login: Authenticated | None = None

    async def respond(self, token: bytes) -> ServerStep:
        if self._claim is not None:
            answer = self._server.finish(token)
            return ServerStep(answer, self._authenticated(self._claim))
        claim = self._claim = self._server.claim(token)
        self.claimed_user = claim.user
        credentials = self._credentials
        if claim.is_token:
            record = await credentials.token_record(self._mechanism, claim.user)
            self._login = credentials.of_token(claim.user)
        else:
            await credentials.wait_until_read()
            found = credentials.of_scram(self._mechanism, claim.user)
            self._login = None if found is None else self._login_of(claim.user)
            record = found or unknown_user_record(
                self._mechanism, credentials.unknown_key, claim.user
            )
        self._record = record
        return ServerStep(self._server.challenge(record, is_genuine=self._login is not None))

    def _login_of(self, user: str) -> Authenticated:
        return Authenticated(user, (self._mechanism.name, user))

    def _authenticated(self, claim: ScramClaim) -> Authenticated:
        """Return the user after a valid proof. A credential change that ends open sessions must
        also end logins in progress. Raises KafkaError."""
        before, now = self._login, self._login
        if claim.is_token:
            # The record depends only on the id. The token may have been renewed meanwhile.
            now = self._credentials.of_token(claim.user)
        elif self._credentials.of_scram(self._mechanism, claim.user) != self._record:
            now = None
        if before is None or now is None or now.user != before.user:
            raise failed("the credential was changed or deleted during the login")
        return now

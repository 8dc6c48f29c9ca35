"""The delegation tokens that this broker knows: HMACs, logins and expiry.

The HMAC of a token is its password. The broker derives it from the token's id and the secret
``delegation.token.secret.key``, and likewise derives a SCRAM record for any id: a login with an id
that does not exist takes the same steps, with a salt of the same origin, as one with a wrong HMAC.
"""

from __future__ import annotations

import base64
import hmac
import logging
from typing import TYPE_CHECKING

from ottla.broker.security.authenticated import Authenticated
from ottla.protocol.sasl.exchange import CREDENTIAL_BYTES_MAX, failed
from ottla.protocol.sasl.scram_record import SALT_BYTES, record_of
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ottla.coordinator.store.delegation_tokens import TokenInformation
    from ottla.protocol.ports import Clock, Offload
    from ottla.protocol.sasl.scram_record import ScramMechanism, ScramRecord

logger = logging.getLogger("ottla.security")

CREDENTIAL = "delegation token"
# Each record costs one password hash; this many are cached.
RECORDS_MAX = 2_000


class DelegationTokens:
    """The known delegation tokens, owned by the server.

    Args:
        secret: Of ``delegation.token.secret.key``.
        clock: Tells when tokens end.
        offload: Hashes passwords.
    """

    def __init__(self, secret: Secret, clock: Clock, offload: Offload) -> None:
        self._secret = secret
        self._clock = clock
        self._offload = offload
        # Called with the credential of each token whose sessions must end.
        self.on_end: Callable[[tuple[str, str], str], object] = lambda *_end: None
        self._tokens: dict[str, TokenInformation] = {}
        self._ids: dict[bytes, str] = {}
        self._alive: set[str] = set()
        self._records: dict[tuple[str, str], ScramRecord] = {}

    def all(self) -> list[TokenInformation]:
        """Return every known token, including expired ones that are not removed yet."""
        return list(self._tokens.values())

    def token_of(self, token_hmac: bytes) -> TokenInformation | None:
        """The token with that HMAC."""
        token_id = self._ids.get(token_hmac)
        return None if token_id is None else self._tokens[token_id]

    def hmac_of(self, token_id: str) -> bytes:
        """What the holder of the token proves to have."""
        return hmac.digest(self._key(), token_id.encode(), "sha512")

    def _key(self) -> bytes:
        return self._secret.reveal().encode()

    # ---- changes ----

    def take_all(self, tokens: Iterable[TokenInformation]) -> None:
        """These are all tokens that there are."""
        known = {token.token_id: token for token in tokens}
        gone: dict[str, TokenInformation | None] = dict.fromkeys(self._tokens.keys() - known.keys())
        self.take({**gone, **known})

    def take(self, changes: Mapping[str, TokenInformation | None]) -> None:
        """Replace the known tokens of these ids; None removes a token."""
        for token_id, token in changes.items():
            before = self._tokens.get(token_id)
            was_alive = token_id in self._alive
            if token is None:
                self._forget(token_id)
            else:
                self._tokens[token_id] = token
                self._ids[self.hmac_of(token_id)] = token_id
                self._alive.add(token_id)
            is_same = before is not None and token is not None and token.owner == before.owner
            if was_alive and not is_same:
                self.on_end((CREDENTIAL, token_id), "its delegation token was removed")
        self.end_expired()

    def _forget(self, token_id: str) -> None:
        if self._tokens.pop(token_id, None) is not None:
            self._ids.pop(self.hmac_of(token_id), None)
            self._alive.discard(token_id)

    def end_expired(self) -> None:
        """End the sessions of expired tokens, once per token."""
        wall_ms = self._clock.wall_ms()
        for token_id in [one for one in self._alive if self._tokens[one].is_expired(wall_ms)]:
            self._alive.discard(token_id)
            self.on_end((CREDENTIAL, token_id), "its delegation token has expired")

    # ---- logins ----

    async def record(self, mechanism: ScramMechanism, token_id: str) -> ScramRecord:
        """Return the SCRAM record of the token's HMAC, also if there is no such token.

        Raises KafkaError for an id that is longer than any."""
        if len(token_id.encode()) > CREDENTIAL_BYTES_MAX:
            raise failed("the id of a delegation token is too long")
        found = self._records.get((mechanism.name, token_id))
        if found is None:
            found = await self._offload.run(_record, mechanism, self._key(), token_id)
            while len(self._records) >= RECORDS_MAX:
                del self._records[next(iter(self._records))]
            self._records[mechanism.name, token_id] = found
        return found

    def login_of(self, token_id: str) -> Authenticated | None:
        """Return the user of the token, None if the token is not valid."""
        token = self._tokens.get(token_id)
        if token is None or token.is_expired(self._clock.wall_ms()):
            return None
        _, _, user = token.owner.partition(":")
        ends_ms = min(token.expiry_ms, token.max_ms)
        return Authenticated(user, (CREDENTIAL, token_id), ends_ms, is_token=True)


def _record(mechanism: ScramMechanism, key: bytes, token_id: str) -> ScramRecord:
    password = base64.b64encode(hmac.digest(key, token_id.encode(), "sha512")).decode()
    # The same on all brokers, before and after the token's life; no id contains a space.
    salt = hmac.digest(key, f"salt of {mechanism.name} {token_id}".encode(), "sha512")
    return record_of(mechanism, Secret(password), salt[:SALT_BYTES])

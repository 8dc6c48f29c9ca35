"""Looks up the credentials of users in the configuration and in the metadata store.

At its start the broker converts passwords of the configuration into records and forgets the
passwords. Credentials in the store are part of the user settings, which the broker follows.
"""

from __future__ import annotations

import hmac
import logging
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store.entities import USERS, quoted
from ottla.protocol.sasl.exchange import PLAIN
from ottla.protocol.sasl.scram_record import (
    SALT_BYTES,
    SCRAM_SHA_256,
    ScramRecord,
    parse_record,
    record_of,
    unknown_user_record,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ottla.broker.security.authenticated import Authenticated
    from ottla.broker.security.delegation_tokens import DelegationTokens
    from ottla.coordinator.configs.sasl_settings import SaslSettings
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.ports import Random
    from ottla.protocol.sasl.scram_record import ScramMechanism

logger = logging.getLogger("ottla.security")


class Credentials:
    """The credentials that logins are checked against, owned by the server.

    Args:
        image: The metadata in force.
        until_read: Returns once the settings of users have been read from the store.
        sasl: The SASL listeners, for the users of PLAIN in their configuration.
        random: For salts, and for the salts of users that do not exist.
        tokens: The delegation tokens; without them none lets a client in.
    """

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        until_read: Callable[[], Awaitable[object]],
        sasl: Mapping[str, SaslSettings],
        random: Random,
        tokens: DelegationTokens | None = None,
    ) -> None:
        self._image = image
        self.wait_until_read = until_read
        self.unknown_key = _unknown_key(sasl, random)
        self._tokens = tokens
        self._of_plain = {
            listener: {
                user: record_of(SCRAM_SHA_256, password, random.token(SALT_BYTES))
                for user, password in settings.jaas[PLAIN].users.items()
            }
            for listener, settings in sasl.items()
            if PLAIN in settings.jaas
        }

    def of_plain(self, listener: str, user: str) -> tuple[ScramMechanism, ScramRecord] | None:
        """Return the record of a PLAIN user of the listener, None if there is no such user."""
        record = self._of_plain.get(listener, {}).get(user)
        return None if record is None else (SCRAM_SHA_256, record)

    def of_scram(self, mechanism: ScramMechanism, user: str) -> ScramRecord | None:
        """Return the stored record, None if there is no usable one."""
        texts = self._image().configs.get(Entity(USERS, quoted(user)), {})
        text = texts.get(mechanism.name)
        if text is None:
            return None
        try:
            return parse_record(mechanism, text)
        except ValueError as error:
            logger.error("the user %r cannot log in with %s: %s", user, mechanism.name, error)
            return None

    async def token_record(self, mechanism: ScramMechanism, token_id: str) -> ScramRecord:
        """Return the record for a login with a delegation token, also for an id that no token has.

        Raises KafkaError."""
        if self._tokens is None:
            return unknown_user_record(mechanism, self.unknown_key, token_id)
        return await self._tokens.record(mechanism, token_id)

    def of_token(self, token_id: str) -> Authenticated | None:
        """Return the user of the token, None if the token is not valid."""
        return None if self._tokens is None else self._tokens.login_of(token_id)


def _unknown_key(sasl: Mapping[str, SaslSettings], random: Random) -> bytes:
    """Return the key for salts of users that do not exist. Brokers that share a password use the
    same key: otherwise the answers of two brokers would differ."""
    shared = sorted(
        entry.text("password")
        for settings in sasl.values()
        for entry in settings.jaas.values()
        if entry.text("password")
    )
    if not shared:
        return random.token(32)
    return hmac.digest(shared[0].encode(), b"unknown users", "sha256")

"""Connections of simulated clients that log in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.ports import Address
from ottla.protocol.sasl.plain import PlainClient
from ottla.protocol.sasl.scram import ScramClient
from ottla.protocol.sasl.scram_record import SCRAM_SHA_256
from ottla.protocol.secret import Secret
from tests.simulation.clients.wire import Wire, open_wire
from tests.simulation.security.options import SASL_PORT, USERS

if TYPE_CHECKING:
    from ottla.protocol.sasl.exchange import ClientExchange
    from tests.simulation.clients.client import Client


class LoginRefused(Exception):
    """The broker has said no."""


async def by_password(client: Client, broker: int, user: str) -> Wire:
    """A connection of a user. Raises Gone, LoginRefused."""
    return await _logged_in(client, broker, "PLAIN", PlainClient(user, Secret(USERS[user])))


async def by_token(client: Client, broker: int, token_id: str, password: str) -> Wire:
    """A connection with a delegation token. Raises Gone, LoginRefused."""
    nonce = f"nonce-{client.random.below(1 << 62)}"
    scram = ScramClient(SCRAM_SHA_256, token_id, Secret(password), nonce, is_token=True)
    return await _logged_in(client, broker, SCRAM_SHA_256.name, scram)


async def _logged_in(client: Client, broker: int, mechanism: str, exchange: ClientExchange) -> Wire:
    address = Address(f"broker-{broker}", SASL_PORT)
    wire = await open_wire(client.ports, address, client.history, f"{client.name}@{broker}")
    try:
        await wire.call(SaslHandshakeRequest(mechanism), ApiKey.SASL_HANDSHAKE, 1)
        token: bytes | None = exchange.first()
        while token is not None:
            request = SaslAuthenticateRequest(token)
            answer = await wire.call(request, ApiKey.SASL_AUTHENTICATE, 2)
            if answer.error_code != ErrorCode.NONE:
                raise LoginRefused(answer.error_message)
            token = exchange.next(bytes(answer.auth_bytes))
    except LoginRefused:
        wire.close()
        raise
    return wire

"""Brokers with delegation tokens, and clients that log in with a password or a token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.client.admin import Admin
from ottla.client.settings.config import ClientConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.secret import Secret
from ottla.wire.api import declare
from ottla.wire.clock import RealClock
from ottla.wire.connection_config import ConnectionConfig
from ottla.wire.errors import TransportError
from ottla.wire.negotiation import connect
from ottla.wire.real import RealNet
from ottla.wire.sasl import PasswordSasl
from ottla.wire.security import ConnectionSecurity
from tests.support.sasl_broker import sasl_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.administration.tokens import DelegationToken
    from ottla.protocol.ports import Address
    from ottla.wire.connection import Connection
    from tests.support.raw_client import RawClient

SECRET = "t0ken-secret"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
METADATA = declare(ApiKey.METADATA, MetadataRequest, MetadataResponse, 0, 9)


def token_settings(**more: str) -> dict[str, str]:
    """A broker with tokens, PLAIN (users alice and bob) and both kinds of SCRAM."""
    more = {"delegation_token_secret_key": SECRET, **more}
    return sasl_settings("PLAIN", *SCRAM, **more)


class DatedClock(RealClock):
    """Its date begins at one of its own, and is moved by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.date_ms = 1_800_000_000_000

    def wall_ms(self) -> int:
        return self.date_ms


async def log_in(client: RawClient, user: str) -> None:
    """By password, on a connection of frames."""
    handshake = SaslHandshakeRequest("PLAIN")
    assert (await client.call(1, handshake)).error_code == ErrorCode.NONE
    token = SaslAuthenticateRequest(f"\0{user}\0{user}-secret".encode())
    assert (await client.call(2, token)).error_code == ErrorCode.NONE


def by_password(user: str) -> PasswordSasl:
    return PasswordSasl("PLAIN", user, Secret(f"{user}-secret"))


def by_token(
    token: DelegationToken, mechanism: str = SCRAM[0], *, hmac: str | None = None, user: str = ""
) -> PasswordSasl:
    secret = token.hmac if hmac is None else Secret(hmac)
    return PasswordSasl(mechanism, user or token.token_id, secret, is_token=True)


def admin_with(address: Address, sasl: PasswordSasl) -> Admin:
    """An administrator of one broker."""
    return Admin(str(address), ClientConfig(security=ConnectionSecurity(sasl=sasl)))


async def connected(address: Address, sasl: PasswordSasl) -> Connection:
    """A connection that has logged in. Raises AuthenticationFailed."""
    config = ConnectionConfig(security=ConnectionSecurity(sasl=sasl))
    return await connect(RealNet(), RealClock(), address, config)


async def is_served(connection: Connection) -> bool:
    """Whether the broker still answers on the connection."""
    try:
        return bool((await connection.send(METADATA, MetadataRequest([]))).brokers)
    except TransportError:
        return False


async def until(is_so: Callable[[], Any]) -> None:
    """Wait for what happens soon."""
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)

"""The login of a connection: by each mechanism, refused with a sentence, and renewed in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.secret import Secret
from ottla.wire.api import declare
from ottla.wire.clock import RealClock
from ottla.wire.connection_config import ConnectionConfig
from ottla.wire.errors import AuthenticationFailed
from ottla.wire.negotiation import connect
from ottla.wire.real import RealNet
from ottla.wire.sasl import PasswordSasl, TokenSasl
from ottla.wire.security import ConnectionSecurity
from tests.support.sasl_broker import running_broker, sasl_settings

if TYPE_CHECKING:
    from ottla.wire.connection import Connection
    from tests.support.in_process import RunningBroker

METADATA = declare(ApiKey.METADATA, MetadataRequest, MetadataResponse, 0, 9)


async def connected(
    running: RunningBroker, user: str, password: str, mechanism: str = "PLAIN"
) -> Connection:
    sasl = PasswordSasl(mechanism, user, Secret(password))
    config = ConnectionConfig(security=ConnectionSecurity(sasl=sasl))
    return await connect(RealNet(), RealClock(), running.broker.address, config)


async def test_a_connection_logs_in_before_its_first_request() -> None:
    """Its owner notices nothing of it."""
    async with running_broker(sasl_settings()) as running:
        connection = await connected(running, "alice", "alice-secret")
        assert (await connection.send(METADATA, MetadataRequest([]))).brokers
        connection.close()


@pytest.mark.parametrize(
    ("user", "password", "mechanism", "sentence"),
    [
        ("alice", "wrong", "PLAIN", "the login of 'alice' by PLAIN failed.*check sasl.username"),
        ("ghost", "wrong", "PLAIN", "the login of 'ghost' by PLAIN failed.*check sasl.username"),
        ("alice", "x", "SCRAM-SHA-512", "offers the mechanisms PLAIN: set sasl.mechanism"),
    ],
)
async def test_a_refused_login_is_final_and_says_what_to_look_at(
    user: str, password: str, mechanism: str, sentence: str
) -> None:
    """The same login would fail for ever."""
    async with running_broker(sasl_settings()) as running:
        with pytest.raises(AuthenticationFailed, match=sentence) as caught:
            await connected(running, user, password, mechanism)

    assert not caught.value.retriable
    assert "wrong" not in str(caught.value)


async def test_a_listener_without_sasl_says_so() -> None:
    """The usual mistake is the address of another listener."""
    async with running_broker({}) as running:
        with pytest.raises(
            AuthenticationFailed, match=r"does not use SASL: set security\.protocol"
        ):
            await connected(running, "alice", "alice-secret")


async def test_a_session_is_renewed_before_its_end_while_requests_go_on() -> None:
    """Without it the broker would close the connection at the next request."""
    settings = sasl_settings(connections_max_reauth_ms="400")
    async with running_broker(settings) as running:
        connection = await connected(running, "alice", "alice-secret")
        for _ in range(60):
            assert (await connection.send(METADATA, MetadataRequest([]))).brokers
            await asyncio.sleep(0.02)
        assert not connection.closed
        connection.close()


async def test_a_token_is_asked_for_at_each_login() -> None:
    """Tokens are short-lived; the function may fetch a new one."""
    tokens = iter(["one", "two"])

    async def later() -> Secret:
        return Secret(next(tokens))

    at_once = TokenSasl(lambda: Secret(next(tokens)), {"pool": "p"})
    assert b"Bearer one\x01pool=p\x01" in (await at_once.begin()).first()
    assert b"Bearer two" in (await TokenSasl(later).begin()).first()

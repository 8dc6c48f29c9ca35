"""Logins over real sockets: nothing is served before them, and they end as they should."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.api.table import TABLE
from ottla.protocol.apis import API, ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.sasl_broker import running_broker, sasl_settings

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

RIGHT = b"\0alice\0alice-secret"
WRONG = b"\0alice\0wrong"
HANDSHAKE = SaslHandshakeRequest("PLAIN")
VERSIONS = ApiVersionsRequest("raw", "1")
TOPIC = CreateTopicsRequest([CreatableTopic("sneaked", 1, 1)], timeout_ms=5_000)


async def log_in(client: RawClient, token: bytes = RIGHT) -> Any:
    """The broker's answer to the token."""
    client.send(1, HANDSHAKE)
    assert (await client.answer(1, HANDSHAKE)).error_code == ErrorCode.NONE
    request = SaslAuthenticateRequest(token)
    client.send(2, request)
    return await client.answer(2, request)


async def test_a_right_password_lets_a_client_in() -> None:
    """The first thing that a login is for."""
    async with running_broker(sasl_settings()) as running, running.connect() as client:
        client.send(3, VERSIONS)
        assert (await client.answer(3, VERSIONS)).error_code == ErrorCode.NONE
        answer = await log_in(client)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
        metadata = MetadataRequest([])
        client.send(9, metadata)
        assert (await client.answer(9, metadata)).brokers


@pytest.mark.parametrize(
    "token", [WRONG, b"\0ghost\0x", b"bob\0alice\0alice-secret", b"", b"\xff\0\xff\0\xff"]
)
async def test_a_wrong_login_says_the_same_for_every_reason_and_ends(token: bytes) -> None:
    """A stranger learns neither which users exist nor which part was wrong."""
    async with running_broker(sasl_settings()) as running, running.connect() as client:
        answer = await log_in(client, token)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Authentication failed: the credentials for SASL/PLAIN are not accepted"
        )
        assert not answer.auth_bytes
        with pytest.raises(EOFError):
            await client.frame()


async def test_an_unknown_mechanism_is_answered_with_those_that_are_enabled() -> None:
    """Clients show the list to their user."""
    settings = sasl_settings("PLAIN", "SCRAM-SHA-256")
    async with running_broker(settings) as running, running.connect() as client:
        gssapi = SaslHandshakeRequest("GSSAPI")
        client.send(1, gssapi)
        answer = await client.answer(1, gssapi)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        with pytest.raises(EOFError):
            await client.frame()


async def _at_start(_client: RawClient) -> None: ...


async def _after_versions(client: RawClient) -> None:
    client.send(3, VERSIONS)
    await client.answer(3, VERSIONS)


async def _after_handshake(client: RawClient) -> None:
    client.send(1, HANDSHAKE)
    await client.answer(1, HANDSHAKE)


async def _after_a_failure(client: RawClient) -> None:
    client.send(1, HANDSHAKE)
    client.send(2, SaslAuthenticateRequest(WRONG))


async def _before_a_failure(client: RawClient) -> None:
    """The token is checked in a thread; what follows it in the same segment must wait."""
    client.send(1, HANDSHAKE)
    client.send(2, SaslAuthenticateRequest(b"\0ghost\0x"))


@pytest.mark.parametrize(
    "begin", [_at_start, _after_versions, _after_handshake, _after_a_failure, _before_a_failure]
)
async def test_no_api_is_executed_before_the_login(begin: Any) -> None:
    """Every API as the next frame in every state, and behind a login that fails."""
    settings = sasl_settings(connection_failed_authentication_delay_ms="0")
    async with running_broker(settings) as running:
        dispatcher = running.broker.requests.dispatcher
        for key in sorted(API):
            if key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                continue
            async with running.connect() as client:
                await begin(client)
                version = TABLE[key].min_version if key in TABLE else 0
                client.send_frame(key.to_bytes(2) + version.to_bytes(2) + bytes(64))
                while True:
                    try:
                        await client.frame()
                    except EOFError:
                        break
        served = {key for key, _version, count in dispatcher.counts_by_version if count}
        assert served <= {ApiKey.API_VERSIONS}


async def test_a_request_after_a_valid_token_in_one_segment_is_served_as_that_user() -> None:
    """Impatient clients are served; it is the user who creates the topic, not a stranger."""
    async with running_broker(sasl_settings()) as running, running.connect() as client:
        client.send(1, HANDSHAKE)
        client.send(2, SaslAuthenticateRequest(RIGHT))
        client.send(5, TOPIC)
        await client.answer(1, HANDSHAKE)
        assert (await client.answer(2, SaslAuthenticateRequest())).error_code == ErrorCode.NONE
        assert (await client.answer(5, TOPIC)).topics[0].error_code == ErrorCode.NONE
        assert "sneaked" in running.broker.metadata.topic_names()


async def test_a_request_after_a_wrong_token_in_one_segment_is_not_executed() -> None:
    """Checking a password takes a moment; the next frame must not overtake it."""
    async with running_broker(sasl_settings()) as running:
        async with running.connect() as client:
            client.send(1, HANDSHAKE)
            client.send(2, SaslAuthenticateRequest(WRONG))
            client.send(5, TOPIC)
            await client.answer(1, HANDSHAKE)
            assert (await client.answer(2, SaslAuthenticateRequest())).error_code
            with pytest.raises(EOFError):
                await client.frame()
        assert "sneaked" not in running.broker.metadata.topic_names()


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        (17_000).to_bytes(4) + b"\0\x11\0\1" + bytes(32),
        (4).to_bytes(4) + b"\x60\x82\x02\x6e",
    ],
)
async def test_a_stranger_that_speaks_another_protocol_is_cut_off(first: bytes) -> None:
    """The length is a claim; nothing is allocated for it, and none above 16 KiB is believed."""
    async with running_broker(sasl_settings()) as running, running.connect() as client:
        client.send_bytes(first)
        with pytest.raises(EOFError):
            await client.frame()


async def test_old_clients_log_in_with_tokens_without_headers() -> None:
    """After a SaslHandshake of version 0 each frame is a token."""
    async with running_broker(sasl_settings()) as running:
        async with running.connect() as client:
            client.send(0, HANDSHAKE)
            await client.answer(0, HANDSHAKE)
            client.send_frame(RIGHT)
            assert await client.frame() == b""
            client.send(9, MetadataRequest([]))
            assert (await client.answer(9, MetadataRequest([]))).brokers
        async with running.connect() as client:
            client.send(0, HANDSHAKE)
            await client.answer(0, HANDSHAKE)
            client.send_frame(WRONG)
            with pytest.raises(EOFError):
                await client.frame()


async def test_a_connection_that_does_not_log_in_in_time_is_closed() -> None:
    """One byte now and then must not keep it open."""
    settings = sasl_settings(ottla_authentication_timeout_ms="200")
    async with running_broker(settings) as running:
        async with running.connect() as silent, running.connect() as user:
            await log_in(user)
            assert running.broker.parts.logins.pending_count == 1
            with pytest.raises(EOFError):
                await silent.frame()
            metadata = MetadataRequest([])
            user.send(9, metadata)
            assert (await user.answer(9, metadata)).brokers
        assert running.broker.parts.logins.pending_count == 0


async def test_too_many_connections_without_login_push_the_oldest_out() -> None:
    """A client that logs in is not kept out by those that only connect."""
    settings = sasl_settings(ottla_authentication_max_connections="2")
    async with (
        running_broker(settings) as running,
        running.connect() as first,
        running.connect() as _second,
    ):
        async with running.connect() as user:
            assert (await log_in(user)).error_code == ErrorCode.NONE
        with pytest.raises(EOFError):
            await first.frame()


async def test_an_expired_session_serves_only_a_new_login() -> None:
    """KIP-368: a client that does not log in again has no rights any more."""
    settings = sasl_settings(connections_max_reauth_ms="300")
    async with (
        running_broker(settings) as running,
        running.connect() as obedient,
        running.connect() as careless,
    ):
        answer = await log_in(obedient)
        assert 0 < answer.session_lifetime_ms <= 300
        await log_in(careless)
        for _ in range(3):
            await asyncio.sleep(0.2)
            assert (await log_in(obedient)).error_code == ErrorCode.NONE
        obedient.send(9, MetadataRequest([]))
        assert (await obedient.answer(9, MetadataRequest([]))).brokers
        careless.send(9, MetadataRequest([]))
        with pytest.raises(EOFError):
            await careless.frame()


async def test_an_expired_session_can_still_be_renewed() -> None:
    """A client that was late logs in on the same connection."""
    settings = sasl_settings(connections_max_reauth_ms="50")
    async with running_broker(settings) as running, running.connect() as client:
        await log_in(client)
        await asyncio.sleep(0.3)
        assert (await log_in(client)).error_code == ErrorCode.NONE


async def test_a_session_may_expire_between_the_steps_of_its_renewal() -> None:
    """A refused login is final to clients; what is sent instead of the token is not served."""
    settings = sasl_settings(connections_max_reauth_ms="500")
    request, metadata = SaslAuthenticateRequest(RIGHT), MetadataRequest([])
    async with (
        running_broker(settings) as running,
        running.connect() as client,
        running.connect() as careless,
    ):
        for one in (client, careless):
            await log_in(one)
            one.send(1, HANDSHAKE)
            assert (await one.answer(1, HANDSHAKE)).error_code == ErrorCode.NONE
        await asyncio.sleep(0.8)
        client.send(2, request)
        assert (await client.answer(2, request)).error_code == ErrorCode.NONE
        client.send(9, metadata)
        assert (await client.answer(9, metadata)).brokers
        careless.send(9, metadata)
        with pytest.raises(EOFError):
            await careless.frame()


async def test_a_session_keeps_its_user_and_mechanism() -> None:
    """Another user on a running connection would take over what the first one has begun."""
    settings = sasl_settings("PLAIN", "SCRAM-SHA-256")
    async with running_broker(settings) as running:
        async with running.connect() as client:
            await log_in(client)
            answer = await log_in(client, b"\0bob\0bob-secret")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        async with running.connect() as client:
            await log_in(client)
            scram = SaslHandshakeRequest("SCRAM-SHA-256")
            client.send(1, scram)
            assert (await client.answer(1, scram)).error_code == ErrorCode.ILLEGAL_SASL_STATE


async def test_an_authenticated_client_learns_that_no_tokens_are_issued() -> None:
    """As from a Kafka broker without a key for tokens; an anonymous one is told to log in."""
    request = DescribeDelegationTokenRequest([])
    async with running_broker(sasl_settings()) as running, running.connect() as client:
        await log_in(client)
        client.send(1, request)
        answer = await client.answer(1, request)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED

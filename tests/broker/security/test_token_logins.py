"""Logins with delegation tokens, attempts to get in with what is none, and the end of sessions."""

from __future__ import annotations

import asyncio
import statistics
import time
from base64 import b64encode
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ottla import Cluster
from ottla.broker.engine.context import RequestContext
from ottla.broker.handlers.security.delegation_tokens import create
from ottla.broker.security.credentials import Credentials
from ottla.broker.security.delegation_tokens import DelegationTokens
from ottla.broker.security.exchanges import ScramExchange
from ottla.broker.server.in_process import BrokersInProcess
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.coordinator.metadata.image import MetadataImage
from ottla.coordinator.store.delegation_tokens import TokenInformation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.ports import Ports
from ottla.protocol.sasl.scram import ScramClient
from ottla.protocol.sasl.scram_record import SCRAM_SHA_256
from ottla.protocol.secret import Secret
from ottla.sync import Admin
from ottla.wire.api import declare
from ottla.wire.clock import RealClock
from ottla.wire.errors import AuthenticationFailed, RequestRefused, TransportError
from ottla.wire.real import RealNet, RealRandom
from tests.broker.support.requests import fetch
from tests.broker.support.token_broker import (
    SCRAM,
    SECRET,
    DatedClock,
    admin_with,
    by_password,
    by_token,
    connected,
    is_served,
    token_settings,
    until,
)
from tests.support.sasl_broker import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.server.broker import Broker
    from ottla.client.administration.tokens import DelegationToken
    from tests.support.in_process import RunningBroker

NOW = 1_800_000_000_000
FETCH = declare(ApiKey.FETCH, FetchRequest, FetchResponse, 4, 12)
KNOWN = TokenInformation("known-token", "User:alice", "User:alice", (), NOW, NOW + 10, NOW + 10)


async def made(running: RunningBroker, **order: Any) -> DelegationToken:
    async with admin_with(running.broker.address, by_password("alice")) as admin:
        return await admin.tokens.create_token(**order)


def user_of(running: RunningBroker) -> set[str]:
    sessions = running.broker.parts.logins._sessions
    return {one.authenticated.user for one in sessions.values() if one.authenticated.is_token}


@pytest.mark.parametrize("mechanism", SCRAM)
async def test_a_login_with_a_token_is_one_of_its_owner(mechanism: str) -> None:
    """With the id as user and the HMAC as password, by either mechanism."""
    async with running_broker(token_settings()) as running:
        token = await made(running)
        connection = await connected(running.broker.address, by_token(token, mechanism))
        assert await is_served(connection)
        assert user_of(running) == {"alice"}
        connection.close()


async def test_a_request_of_a_token_whose_connection_has_gone_makes_no_token() -> None:
    """The session ends with its connection; the broker no longer knows that it was a token's."""
    async with running_broker(token_settings()) as running:
        connection = await connected(running.broker.address, by_token(await made(running)))
        sessions = running.broker.parts.logins._sessions
        (peer,) = (one for one, found in sessions.items() if found.authenticated.is_token)
        assert running.broker.state.requests is not None
        services = running.broker.state.requests.dispatcher._services
        context = RequestContext(peer, ApiKey.CREATE_DELEGATION_TOKEN, 3, 1, "", 0)
        peer.close("gone")
        answer = await create(services, context, CreateDelegationTokenRequest())
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        connection.close()


async def test_records_are_sent_and_read_with_a_token_alone() -> None:
    """A producer and a consumer by Kafka's settings, and by single ones."""
    async with running_broker(token_settings()) as running:
        token = await made(running)
        where = str(running.broker.address)
        async with admin_with(running.broker.address, by_token(token)) as admin:
            await admin.create_topics([NewTopic("t", 1, 1)])
        kafkas = {"security.protocol": "SASL_PLAINTEXT", **token.login_settings(SCRAM[1])}
        single = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": SCRAM[0],
            "sasl.username": token.token_id,
            "sasl.password": token.hmac.reveal(),
            "sasl.tokenauth": "true",
        }
        async with Producer(where, security=kafkas) as producer:
            await (await producer.send("t", b"by token"))
        async with Consumer(
            where, security=single, offset_reset="earliest", group_id="g"
        ) as reader:
            await reader.subscribe(["t"])
            async for record in reader:
                assert record.value == b"by token"
                break


async def test_an_invalid_token_is_refused() -> None:
    """A wrong HMAC, another's, an unknown id, a token as a user, a user as a token."""
    async with running_broker(
        token_settings(connection_failed_authentication_delay_ms="0")
    ) as running:
        token, other = await made(running), await made(running)
        async with admin_with(running.broker.address, by_password("alice")) as admin:
            await admin.users.set_password("carol", "carol-secret", SCRAM[0])
        for sasl in (
            by_token(token, hmac="wrong"),
            by_token(token, hmac=other.hmac.reveal()),
            by_token(token, hmac=token.hmac.reveal().lower()),
            by_token(token, user="unknown"),
            by_token(token, user=token.token_id.lower()),
            by_token(token, user="alice"),
            by_token(token, user="x" * 300),
            by_token(token, user="carol", hmac="carol-secret"),
            by_token(token, user="../../config/users/carol", hmac="carol-secret"),
        ):
            with pytest.raises(AuthenticationFailed):
                await connected(running.broker.address, sasl)
        with pytest.raises(AuthenticationFailed):
            await connected(running.broker.address, replace(by_token(token), is_token=False))
        assert not user_of(running)


async def test_a_token_of_a_broker_without_tokens_is_not_accepted() -> None:
    """A record of its own is challenged, as for an unknown user."""
    async with running_broker(token_settings()) as running:
        token = await made(running)
    async with running_broker(token_settings(delegation_token_secret_key="")) as running:
        with pytest.raises(AuthenticationFailed):
            await connected(running.broker.address, by_token(token))


async def test_an_expired_token_ends_its_sessions_and_is_not_accepted_again() -> None:
    """To the millisecond for logins; sessions end at the next tick. A renewed one is accepted."""
    clock = DatedClock()
    async with running_broker(token_settings(), clock=clock) as running:
        short, long = await made(running, max_lifetime_ms=60_000), await made(running)
        address = running.broker.address
        ending, staying = [await connected(address, by_token(one)) for one in (short, long)]
        clock.date_ms = short.max_ms
        again = await connected(address, by_token(short))
        assert await is_served(again)
        clock.date_ms += 1
        with pytest.raises(AuthenticationFailed):
            await connected(address, by_token(short))
        await until(lambda: ending.closed and again.closed)
        assert await is_served(staying)
        staying.close()


async def test_a_period_that_is_shortened_counts_for_open_sessions() -> None:
    """What the broker has told a client about the life of its session does not keep it alive."""
    clock = DatedClock()
    async with running_broker(token_settings(), clock=clock) as running:
        token = await made(running)
        connection = await connected(running.broker.address, by_token(token))
        async with admin_with(running.broker.address, by_password("alice")) as admin:
            expiry_ms = await admin.tokens.expire_token(token.hmac, 5_000)
            assert expiry_ms == clock.date_ms + 5_000
            assert await is_served(connection)
            clock.date_ms += 5_001
            await until(lambda: connection.closed)


async def test_the_controller_removes_expired_tokens() -> None:
    """In the interval of the settings; the first time at once."""
    clock = DatedClock()
    settings = token_settings(delegation_token_expiry_check_interval_ms="1")
    async with running_broker(settings, clock=clock) as running:
        await made(running, max_lifetime_ms=1_000)
        tokens = known_to(running.broker)
        assert tokens.all()
        clock.date_ms += 1_001
        await until(lambda: not tokens.all())


async def challenge(credentials: Credentials, token_id: str) -> tuple[str, int, str]:
    """Salt and iterations that the broker answers, and why it refuses a wrong proof."""
    client = ScramClient(SCRAM_SHA_256, token_id, Secret("wrong"), "n" * 24, is_token=True)
    exchange = ScramExchange(SCRAM_SHA_256, credentials, RealRandom())
    message = (await exchange.respond(client.first())).token
    proof = client.next(message)
    assert proof is not None
    with pytest.raises(KafkaError) as caught:
        await exchange.respond(proof)
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    _nonce, salt, iterations = message.decode().split(",")
    return salt, int(iterations[2:]), caught.value.message


class Inline:
    """Work that would run in a thread."""

    async def run(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)


def known_tokens() -> tuple[DelegationTokens, Credentials, DatedClock]:
    """One broker's, that knows a token."""
    clock = DatedClock()
    tokens = DelegationTokens(Secret(SECRET), clock, Inline())
    tokens.take_all([KNOWN])

    async def read() -> None: ...

    image = MetadataImage("cluster")
    return tokens, Credentials(lambda: image, read, {}, RealRandom(), tokens), clock


async def test_an_unknown_token_cannot_be_told_from_a_wrong_hmac() -> None:
    """The salt of an id is the same on all brokers, before, during and after the token's life."""
    (tokens, one, clock), (_others, other, _clock) = known_tokens(), known_tokens()
    of_known, of_unknown = await challenge(one, "known-token"), await challenge(one, "unknown")
    assert of_known[1:] == of_unknown[1:]
    assert of_known[0] != of_unknown[0]
    assert len(of_known[0]) == len(of_unknown[0])
    assert await challenge(other, "known-token") == of_known
    assert await challenge(other, "unknown") == of_unknown
    clock.date_ms = KNOWN.max_ms + 1
    assert await challenge(one, "known-token") == of_known
    tokens.take({"known-token": None})
    assert await challenge(one, "known-token") == of_known
    tokens.take({"unknown": KNOWN._replace(token_id="unknown")})
    assert await challenge(one, "unknown") == of_unknown


@pytest.mark.soak
async def test_the_time_of_a_refusal_reveals_no_token() -> None:
    """Medians of first and of later tries, in turn, so that both see the same machine."""
    _tokens, credentials, _clock = known_tokens()
    for fresh in (True, False):
        times: dict[str, list[float]] = {"known-token": [], "unknown-one": []}
        for _ in range(200):
            if fresh:
                _tokens._records.clear()
            for token_id, found in times.items():
                client = ScramClient(SCRAM_SHA_256, token_id, Secret("x"), "nonce", is_token=True)
                exchange = ScramExchange(SCRAM_SHA_256, credentials, RealRandom())
                begun = time.perf_counter()
                await exchange.respond(client.first())
                found.append(time.perf_counter() - begun)
        known, unknown = (statistics.median(found) for found in times.values())
        assert abs(known - unknown) < (0.05 if fresh else 0.3) * max(known, unknown)


async def test_a_login_under_way_does_not_outlive_its_token() -> None:
    """A client that has its challenge already could else go on with a removed token."""
    for removed in ({"known-token": None}, {"known-token": KNOWN._replace(owner="User:bob")}, {}):
        tokens, credentials, clock = known_tokens()
        secret = tokens.hmac_of("known-token")
        password = Secret(b64encode(secret).decode())
        client = ScramClient(SCRAM_SHA_256, "known-token", password, "n" * 24, is_token=True)
        exchange = ScramExchange(SCRAM_SHA_256, credentials, RealRandom())
        proof = client.next((await exchange.respond(client.first())).token)
        assert proof is not None
        tokens.take(removed)
        if not removed:
            clock.date_ms = KNOWN.max_ms + 1
        with pytest.raises(KafkaError, match="changed or deleted"):
            await exchange.respond(proof)


async def test_strangers_fill_no_memory_with_ids() -> None:
    """Records are kept for so many ids only."""
    tokens, credentials, _clock = known_tokens()
    tokens._records.update({("x", str(number)): None for number in range(5_000)})  # type: ignore[misc]
    await challenge(credentials, "unknown")
    assert len(tokens._records) <= 2_000
    with pytest.raises(KafkaError):
        await challenge(credentials, "x" * 256)


def known_to(broker: Broker) -> DelegationTokens:
    store = broker.parts.tokens
    assert store is not None
    return store.tokens


def _has(tokens: DelegationTokens, count: int) -> bool:
    return len(tokens.all()) == count


@pytest.fixture
async def cluster() -> AsyncIterator[BrokersInProcess]:
    """Three brokers with one store."""
    ports = Ports(
        clock=RealClock(),
        random=RealRandom(),
        net=RealNet(),
        disk=MemoryDisk(),
        offload=RealOffload(),
        process=RealProcess(),
    )
    brokers = BrokersInProcess(ports, {**token_settings(), "log.dirs": "/data"}, 3)
    await brokers.start()
    try:
        yield brokers
    finally:
        await brokers.stop()


async def test_a_revocation_ends_the_sessions_on_every_broker(cluster: BrokersInProcess) -> None:
    """Within two seconds; then the token is not accepted anywhere."""
    addresses = [broker.address for broker in cluster.brokers]
    async with admin_with(addresses[0], by_password("alice")) as admin:
        token, other = [await admin.tokens.create_token() for _ in range(2)]
        for broker in cluster.brokers:
            await until(partial(_has, known_to(broker), 2))
        sessions = [
            (await connected(address, by_token(token)), await connected(address, by_token(other)))
            for address in addresses
        ]
        begun = time.monotonic()
        await admin.tokens.expire_token(token.hmac)
        await until(lambda: all(ended.closed for ended, _staying in sessions))
        took_s = time.monotonic() - begun
        for _ended, staying in sessions:
            assert await is_served(staying)
            staying.close()
        for address in addresses:
            with pytest.raises(AuthenticationFailed):
                await connected(address, by_token(token))
    assert took_s < 2


async def test_a_fetch_that_waits_ends_with_its_token() -> None:
    """No record that comes later is delivered to a revoked login."""
    async with (
        running_broker(token_settings()) as running,
        admin_with(running.broker.address, by_password("alice")) as admin,
    ):
        await admin.create_topics([NewTopic("t", 1, 1)])
        token = await admin.tokens.create_token()
        connection = await connected(running.broker.address, by_token(token))
        request = fetch(0, topic="t", max_wait_ms=60_000, min_bytes=1)
        waiting = asyncio.ensure_future(connection.send(FETCH, request))
        await until(lambda: running.broker.parts.shared.waiting.count)
        begun = time.monotonic()
        await admin.tokens.expire_token(token.hmac)
        with pytest.raises(TransportError):
            await waiting
        assert time.monotonic() - begun < 2


@pytest.mark.parametrize(("security", "may"), [("ssl", False), ("mtls", True)])
def test_a_certificate_is_an_authentication_and_encryption_is_none(
    security: str, may: bool
) -> None:
    """Tokens are made by the owner of a certificate, not by an anonymous client over TLS."""
    settings = {"delegation.token.secret.key": SECRET}
    with Cluster(security=security, settings=settings) as cluster:
        options = dict(cluster.client_settings("java"))
        with Admin(str(options.pop("bootstrap.servers")), security=options) as admin:
            if may:
                token = admin.tokens.create_token()
                assert token.owner == token.requester != "User:ANONYMOUS"
                assert admin.tokens.describe_tokens() == [token]
            else:
                with pytest.raises(
                    RequestRefused, match="neither without authentication"
                ) as caught:
                    admin.tokens.create_token()
                assert caught.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

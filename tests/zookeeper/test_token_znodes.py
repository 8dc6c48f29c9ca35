"""Delegation tokens in ZooKeeper: Kafka's nodes, on all brokers at once, and closed to others."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NoAuthError

from ottla.wire.errors import AuthenticationFailed
from tests.broker.support.token_broker import (
    SCRAM,
    SECRET,
    admin_with,
    by_password,
    by_token,
    connected,
    is_served,
)
from tests.support.sasl_broker import jaas
from tests.zookeeper.in_process import ensemble, until

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": f"PLAIN,{','.join(SCRAM)}",
    "listener.name.clients.plain.sasl.jaas.config": jaas("PLAIN", user_alice="alice-secret"),
    "connection.failed.authentication.delay.ms": "0",
    "delegation.token.secret.key": SECRET,
}
TOKENS = "/delegation_token/tokens"


async def test_a_token_is_in_force_on_every_broker_and_ends_on_every_broker(
    tmp_path: Path,
) -> None:
    """Within a second and two; what another program writes counts like a broker's own change."""
    async with ensemble(tmp_path) as site:
        await site.start(1, 2, 3, **SETTINGS)
        addresses = [broker.address for broker in site.brokers.values()]
        stores = [broker.parts.tokens for broker in site.brokers.values()]
        async with admin_with(addresses[0], by_password("alice")) as admin:
            token = await admin.tokens.create_token(["User:bob"])
            begun = time.monotonic()
            await until(lambda: all(store and store.tokens.all() for store in stores))
            assert time.monotonic() - begun < 1
            found = json.loads(site.tree.get(f"{TOKENS}/{token.token_id}")[0])
            assert found == {
                "version": 3,
                "owner": "User%3Aalice",
                "tokenRequester": "User%3Aalice",
                "renewers": ["User%3Abob"],
                "issueTimestamp": token.issue_ms,
                "maxTimestamp": token.max_ms,
                "expiryTimestamp": token.expiry_ms,
                "tokenId": token.token_id,
            }
            sessions = [await connected(one, by_token(token)) for one in addresses]
            assert [await is_served(one) for one in sessions] == [True] * 3
            await admin.tokens.expire_token(token.hmac)
            begun = time.monotonic()
            await until(lambda: all(one.closed for one in sessions))
            assert time.monotonic() - begun < 2
        for address in addresses:
            with pytest.raises(AuthenticationFailed):
                await connected(address, by_token(token))


async def test_a_token_that_kafka_has_written_lets_in(tmp_path: Path) -> None:
    """A cluster that was Kafka's keeps its tokens; of a bad node beside it only the log tells."""
    async with ensemble(tmp_path) as site:
        token_id = "Zm9vYmFyYmF6cXV4LTEyMw"
        now = int(time.time() * 1000)
        kafkas = {
            "version": 3,
            "owner": "User%3Acarol",
            "tokenRequester": "User%3Aproxy",
            "renewers": [],
            "issueTimestamp": now,
            "maxTimestamp": now + 3_600_000,
            "expiryTimestamp": now + 3_600_000,
            "tokenId": token_id,
        }
        for name, data in ((token_id, json.dumps(kafkas).encode()), ("bad", b"{")):
            await asyncio.to_thread(site.tree.create, f"{TOKENS}/{name}", data, makepath=True)
        await site.start(1, **SETTINGS)
        (broker,) = site.brokers.values()
        store = broker.parts.tokens
        assert store is not None
        (known,) = store.tokens.all()
        assert (known.token_id, known.owner, known.requester) == (
            token_id,
            "User:carol",
            "User:proxy",
        )


async def test_with_acls_tokens_are_read_by_brokers_alone(tmp_path: Path) -> None:
    """zookeeper.set.acl: who owns which tokens is no business of other applications."""
    async with ensemble(tmp_path) as site:
        closed = {"zookeeper.set.acl": "true", "ottla.zookeeper.digest": "kafka:secret"}
        await site.start(1, **SETTINGS, **closed)
        (broker,) = site.brokers.values()
        async with admin_with(broker.address, by_password("alice")) as admin:
            token = await admin.tokens.create_token()
        own = f"{TOKENS}/{token.token_id}"
        for path in ("/delegation_token", TOKENS, own):
            for attempt in (site.tree.get, site.tree.get_children):
                with pytest.raises(NoAuthError):
                    await asyncio.to_thread(attempt, path)
        for change in (site.tree.delete, lambda path: site.tree.create(f"{path}s")):
            with pytest.raises(NoAuthError):
                await asyncio.to_thread(change, own)

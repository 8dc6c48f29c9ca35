"""A broker that loses its session while it starts: it takes another one, for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.membership.lifecycle import Registration
from ottla.coordinator.store import paths
from ottla.coordinator.store.paths import EndpointPayload
from ottla.coordinator.store.store import ConnectionLoss, SessionExpired
from tests.broker.support.cluster import Cluster, open_cluster
from tests.broker.support.node import BrokerNode, quiet
from tests.coordinator.store.flaky import FlakyStore

if TYPE_CHECKING:
    from tests.coordinator.store.flaky import FlakySession

PATIENCE_MS = 60_000


class HurtStore(FlakyStore):
    """Hurts its first sessions as they are opened; how, each test says."""

    def __init__(self, cluster: Cluster, hurts: int) -> None:
        super().__init__(cluster.store)
        self._embedded = cluster.store
        self._hurts = hurts
        self.expired: list[int] = []

    async def connect(self, timeout_ms: int = 18_000) -> FlakySession:
        """The session, ended before anything is asked in it if it is one of the first."""
        session = await super().connect(timeout_ms)
        if len(self.sessions) <= self._hurts:
            await self._embedded.expire(session.session_id)
            self.expired.append(session.session_id)
        return session


async def start(cluster: Cluster, store: FlakyStore) -> tuple[BrokerNode, asyncio.Task[None]]:
    """Broker 2 on that store, as far as it comes by itself."""
    node = BrokerNode(store, 2, clock=cluster.clock, random_start=77_000, channel=cluster)
    cluster.nodes[2] = node
    starting = asyncio.ensure_future(node.start())
    await quiet()
    return node, starting


@pytest.mark.requirement("ZKT-04")
@pytest.mark.parametrize("kind", ["expired", "suspended"])
async def test_a_session_lost_while_the_logs_are_opened_is_replaced(kind: str) -> None:
    """Scanning logs after an unclean stop takes longer than a session may be silent."""
    cluster = await open_cluster(1)
    store = FlakyStore(cluster.store)
    node = BrokerNode(store, 2, clock=cluster.clock, random_start=77_000, channel=cluster)
    cluster.nodes[2] = node
    node.metadata.begin(await node.lifecycle.join(), 1)
    (lost,) = store.sessions
    if kind == "expired":
        await cluster.store.expire(lost.session_id)
    else:
        lost.suspend()
    place = Registration(2, (EndpointPayload("PLAINTEXT", "localhost", 9094, "PLAINTEXT"),))
    followers = (node.configs, node.candidate, node.features)
    registering = asyncio.ensure_future(node.lifecycle.register(place, followers))
    await quiet()
    assert not registering.done()
    await cluster.clock.advance(1000)

    assert await registering == 1
    assert node.lifecycle.session is store.sessions[-1] is not lost
    assert sorted(cluster.nodes[1].metadata.image.brokers) == [1, 2]
    owner = cluster.store.read_tree().get(paths.broker(2)).stat.ephemeral_owner
    assert owner == store.sessions[-1].session_id


async def test_a_session_lost_as_it_joins_is_replaced() -> None:
    """Three in a row: each costs half a second and no more."""
    cluster = await open_cluster(1)
    store = HurtStore(cluster, hurts=3)
    node, starting = await start(cluster, store)
    for lost in (1, 2, 3):
        assert len(store.sessions) == lost
        assert not starting.done()
        await cluster.clock.advance(500)
    await starting

    assert len(store.expired) == 3
    assert node.lifecycle.broker_epoch == 1
    assert sorted(cluster.nodes[1].metadata.image.brokers) == [1, 2]


class AbsentStore(FlakyStore):
    """Cannot be connected to at the attempts with those numbers, the first of which is 0."""

    def __init__(self, cluster: Cluster, absent: set[int]) -> None:
        super().__init__(cluster.store)
        self._absent = absent
        self.attempts = 0

    async def connect(self, timeout_ms: int = 18_000) -> FlakySession:
        """The session. Raises ConnectionLoss."""
        self.attempts += 1
        if self.attempts - 1 in self._absent:
            raise ConnectionLoss("nobody answers")
        return await super().connect(timeout_ms)


async def test_a_store_that_is_away_for_a_while_is_waited_for() -> None:
    """It elects a leader of its own while the broker starts."""
    cluster = await open_cluster(1)
    store = AbsentStore(cluster, {1, 2})
    node = BrokerNode(store, 2, clock=cluster.clock, random_start=77_000, channel=cluster)
    cluster.nodes[2] = node
    await node.lifecycle.join()
    await cluster.store.expire(store.sessions[0].session_id)
    starting = asyncio.ensure_future(node.start())
    for _ in range(3):
        await quiet()
        assert not starting.done()
        await cluster.clock.advance(500)
    await starting

    assert store.attempts == 4
    assert sorted(cluster.nodes[1].metadata.image.brokers) == [1, 2]


async def test_a_store_that_was_never_there_is_told_at_once() -> None:
    """Its address is probably wrong."""
    cluster = await open_cluster(1)
    _node, starting = await start(cluster, AbsentStore(cluster, {0}))

    with pytest.raises(ConnectionLoss, match="nobody answers"):
        await starting


async def test_a_broker_that_loses_every_session_says_so_in_the_end() -> None:
    """If no session lasts, the operator has to repair the store."""
    cluster = await open_cluster(1)
    store = HurtStore(cluster, hurts=1000)
    _node, starting = await start(cluster, store)
    for _ in range(PATIENCE_MS // 500 - 1):
        await cluster.clock.advance(500)
    assert not starting.done()
    await cluster.clock.advance(1000)

    with pytest.raises(SessionExpired, match="see that the store is well"):
        await starting
    assert sorted(cluster.nodes[1].metadata.image.brokers) == [1]

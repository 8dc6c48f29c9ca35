"""How long a group's commit waits for the replicas of its partition: in virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.routing import Router
from ottla.client.group.commits import Commits
from ottla.client.group.identity import GroupIdentity
from ottla.client.process.environment import Environment
from ottla.client.records.committed import Committed
from ottla.client.settings.config import ConsumerConfig, parse_addresses
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.support.groups import GROUP, commit, committed, coordinated
from tests.broker.support.requests import create
from tests.support.virtual_time import VirtualBrokers, elapsed_ms, in_virtual_time, virtual_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.protocol.ports import Ports

SLACK_MS = 100.0
LAG_MS = 10_000.0


@asynccontextmanager
async def silent_followers(
    ports: Ports, timeout_ms: int
) -> AsyncIterator[tuple[VirtualBrokers, int]]:
    """Three brokers and the coordinator's id: its followers are in sync and fetch no more. Topic
    ``t`` is there."""
    settings = {
        "offsets.commit.timeout.ms": str(timeout_ms),
        "offsets.topic.num.partitions": "1",
        "replica.lag.time.max.ms": str(int(LAG_MS)),
    }
    async with virtual_cluster(ports, 3, settings) as brokers:
        async with brokers.connect(1) as client:
            await create(client)
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
            while (await client.call(4, request)).coordinators[0].error_code != ErrorCode.NONE:
                await ports.clock.sleep(10)
        leader_id, _ = brokers[1].metadata.leader_of(OFFSETS_TOPIC, 0)
        async with brokers.connect(leader_id) as client:
            await coordinated(client)
        for node_id in {1, 2, 3} - {leader_id}:
            await brokers[node_id].parts.fetchers.stop()
        yield brokers, leader_id


@pytest.mark.requirement("GRP-05")
@pytest.mark.parametrize("timeout_ms", [200, 7_000])
def test_a_commit_that_is_not_replicated_fails_after_the_configured_time(timeout_ms: int) -> None:
    """The client gets a retriable error."""

    async def story(ports: Ports) -> tuple[int, float]:
        async with (
            silent_followers(ports, timeout_ms) as (brokers, leader_id),
            brokers.connect(leader_id) as client,
        ):
            started = elapsed_ms()
            (code,) = (await commit(client, {("t", 0): 7})).values()
            return code, elapsed_ms() - started

    code, waited_ms = in_virtual_time(story)

    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert timeout_ms <= waited_ms <= timeout_ms + SLACK_MS


@pytest.mark.requirement("GRP-05")
def test_the_client_commits_again_until_the_commit_is_replicated() -> None:
    """Its first attempts fail; when the silent followers have left the ISR, one succeeds."""

    async def story(ports: Ports) -> tuple[float, dict[tuple[str, int], int]]:
        async with silent_followers(ports, 3_000) as (brokers, leader_id):
            environment = Environment(ports.net, ports.clock, ports.random)
            address = str(brokers[leader_id].address)
            config = ConsumerConfig(call_timeout_ms=60_000)
            cluster = ClusterClient(environment, parse_addresses(address), config)
            await cluster.refresh()
            commits = Commits(Router(cluster), GROUP, ports.clock)
            started = elapsed_ms()
            await commits.commit({TopicPartition("t", 0): Committed(7)}, GroupIdentity(GROUP))
            waited_ms = elapsed_ms() - started
            await commits.stop()
            cluster.close()
            async with brokers.connect(leader_id) as client:
                return waited_ms, await committed(client)

    waited_ms, positions = in_virtual_time(story)

    assert waited_ms > 2 * 3_000
    assert positions == {("t", 0): 7}

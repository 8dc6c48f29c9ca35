"""A broker that is stopped hands over what it leads, before its clients notice."""

from __future__ import annotations

import asyncio

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.cluster import RunningCluster, running_cluster

PARTITIONS = 6


async def with_topic(cluster: RunningCluster) -> None:
    """Six partitions with three replicas each."""
    wanted = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=3)
    async with cluster.connect(cluster.controller.node_id) as client:
        answer = await client.call(7, CreateTopicsRequest([wanted], timeout_ms=10_000))
    assert answer.topics[0].error_code == ErrorCode.NONE


def leaders(cluster: RunningCluster, seen_by: int) -> set[int]:
    """As one broker believes."""
    topic = cluster[seen_by].metadata.topic("t")
    assert topic is not None
    return {state.leader for state in topic.partitions.values()}


@pytest.mark.parametrize("which", ["controller", "another"])
async def test_others_lead_before_it_is_gone(which: str) -> None:
    """Waiting for its session to run out would leave its partitions without a leader for long."""
    async with running_cluster(3, {"controlled.shutdown.retry.backoff.ms": "50"}) as cluster:
        await with_topic(cluster)
        controller = cluster.controller
        stopped = (
            controller
            if which == "controller"
            else next(one for one in cluster.running.brokers if one is not controller)
        )
        others = [one.node_id for one in cluster.running.brokers if one is not stopped]
        seen: list[set[int]] = []
        network = stopped.network
        assert network is not None
        stop_accepting = network.stop_accepting

        def look_first() -> None:
            seen.append(leaders(cluster, others[0]))
            # one more fetch, and a leader would take it into the ISR again.
            assert list(stopped.parts.fetchers.followed) == []
            stop_accepting()

        network.stop_accepting = look_first  # type: ignore[method-assign]
        await stopped.stop()
        cluster.running.brokers.remove(stopped)

        assert seen[0] == set(others)
        topic = cluster[others[0]].metadata.topic("t")
        assert topic is not None
        assert all(stopped.node_id not in state.isr for state in topic.partitions.values())


async def test_a_broker_that_is_alone_stops_at_once() -> None:
    """There is no other broker to hand over to."""
    async with running_cluster(1, {"controlled.shutdown.retry.backoff.ms": "600000"}) as cluster:
        async with asyncio.timeout(60):
            await cluster[1].stop()
        serves = any(one.is_open for one in cluster[1].partitions)
        cluster.running.brokers.clear()

    assert not serves


async def test_an_earlier_life_is_not_relieved_of_what_the_present_one_has() -> None:
    """A request that was repeated from before the bounce (KIP-380)."""
    async with running_cluster(3) as cluster:
        await with_topic(cluster)
        async with cluster.connect(cluster.controller.node_id) as client:
            answer = await client.call(3, ControlledShutdownRequest(2, 0))

        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert leaders(cluster, 1) == {1, 2, 3}


async def test_a_new_topic_shows_at_every_broker_when_its_answer_is_out() -> None:
    """Clients ask any broker about it next; one that had not heard would deny it."""
    async with running_cluster(3) as cluster:
        await with_topic(cluster)

        assert [leaders(cluster, node_id) for node_id in (1, 2, 3)] == [{1, 2, 3}] * 3

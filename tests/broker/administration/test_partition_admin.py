"""Elections, moves and shutdowns through the controller of a cluster, from question to effect."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.administration.cluster_admin import TopicSpec
from ottla.broker.administration.partition_admin import MoveSpec, ShutdownResult
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from tests.broker.support.cluster import Cluster, open_cluster
from tests.broker.support.node import TIMEOUT_MS, quiet

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def three() -> Cluster:
    """Broker 1 is the controller."""
    cluster = await open_cluster(1, 2, 3)
    await cluster.create(TopicSpec("t", assignment={0: [1, 2], 1: [2, 1]}))
    return cluster


def leaders(cluster: Cluster, node_id: int = 3) -> list[int]:
    return [cluster.nodes[node_id].metadata.leader_of("t", index)[0] for index in (0, 1)]


async def test_a_broker_that_stops_is_relieved_before_it_goes() -> None:
    """Clients find the new leaders while the old one still answers."""
    cluster = await three()
    admin = cluster.nodes[1].admin.partitions
    result = await admin.relieve(2, cluster.nodes[2].lifecycle.broker_epoch, TIMEOUT_MS)
    await quiet()

    assert result == ShutdownResult(ErrorCode.NONE)
    assert leaders(cluster) == [1, 1]
    assert sorted(cluster.nodes[2].replicas.deleted) == [("t", 0), ("t", 1)]
    result = await admin.relieve(2, cluster.nodes[2].lifecycle.broker_epoch - 1, TIMEOUT_MS)
    assert result.error_code == ErrorCode.STALE_BROKER_EPOCH
    result = await admin.relieve(1, cluster.nodes[1].lifecycle.broker_epoch, TIMEOUT_MS)
    assert result.remaining == (T0, T1)


async def test_preferred_leaders_show_when_the_answer_comes() -> None:
    """The caller reads the metadata right after the answer and must find the new leader there."""
    cluster = await three()
    await cluster.nodes[1].admin.partitions.relieve(2, -1, TIMEOUT_MS)
    await cluster.kill(2)
    await cluster.expire(2)
    await cluster.start(2, 1)
    await cluster.leader_writes(T1, (1, 2))
    admin = cluster.nodes[1].admin.partitions
    results = await admin.elect_leaders(None, allow_unclean=False, timeout_ms=TIMEOUT_MS)

    assert [(one.partition, one.error_code) for one in results] == [(T1, ErrorCode.NONE)]
    assert leaders(cluster, 1) == [1, 2]


async def test_a_move_is_listed_until_it_is_done() -> None:
    """Tools ask again and again whether it is over."""
    cluster = await three()
    admin = cluster.nodes[1].admin.partitions
    moves = [MoveSpec(T0, (3,)), MoveSpec(T1, (9,)), MoveSpec(TopicPartition("t", 2), None)]
    results = await admin.alter_moves(moves, allow_factor_change=True, timeout_ms=TIMEOUT_MS)
    await quiet()

    assert [one.error_code for one in results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    (moving,) = admin.list_moves(None).values()
    assert (moving.replicas, moving.adding, moving.removing) == ((3, 1, 2), (3,), (1, 2))
    assert admin.list_moves([T1]) == {}
    await cluster.leader_writes(T0, (1, 2, 3))
    assert admin.list_moves(None) == {}
    assert leaders(cluster) == [3, 2]
    assert cluster.nodes[1].replicas.deleted == [("t", 0)]


async def test_who_is_not_the_controller_says_so() -> None:
    """Clients then look for the one that is."""
    cluster = await three()
    admin = cluster.nodes[2].admin.partitions
    for question in (
        admin.elect_leaders([T0], allow_unclean=False, timeout_ms=1),
        admin.alter_moves([], allow_factor_change=True, timeout_ms=1),
        admin.relieve(2, -1, 1),
        admin.unregister(3, 1),
    ):
        with pytest.raises(KafkaError) as refused:
            await question
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
    with pytest.raises(KafkaError):
        admin.list_moves(None)


async def test_what_is_not_seen_in_time_is_unknown() -> None:
    """The election may still happen, so the answer must not say that it failed."""
    cluster = await three()
    await cluster.nodes[1].admin.partitions.relieve(2, -1, TIMEOUT_MS)
    await cluster.kill(2)
    await cluster.expire(2)
    await cluster.start(2, 1)
    await cluster.leader_writes(T1, (1, 2))
    cluster.nodes[1].replicas.door.clear()
    admin = cluster.nodes[1].admin.partitions
    question = asyncio.ensure_future(
        admin.elect_leaders([T0, T1], allow_unclean=False, timeout_ms=TIMEOUT_MS)
    )
    await quiet()
    await cluster.clock.advance(TIMEOUT_MS)

    results = {one.partition: one.error_code for one in await question}
    assert results == {T0: ErrorCode.ELECTION_NOT_NEEDED, T1: ErrorCode.REQUEST_TIMED_OUT}


async def test_a_dead_process_is_replaced_before_its_session_ends() -> None:
    """A broken control connection and a refused reconnect are enough to elect other leaders; the
    broker is trusted again as soon as it is back."""
    cluster = await three()
    await cluster.kill(2)
    cluster.on_lost(2)
    await quiet()
    assert leaders(cluster) == [1, 2]
    await cluster.clock.advance(300)
    assert leaders(cluster) == [1, 1]
    state = cluster.nodes[3].metadata.image.partition("t", 0)
    assert state is not None
    assert state.isr == (1,)
    assert 2 in cluster.nodes[3].metadata.image.brokers
    await cluster.expire(2)
    await cluster.start(2, 1)
    await cluster.leader_writes(T1, (1, 2))

    state = cluster.nodes[3].metadata.image.partition("t", 1)
    assert state is not None
    assert state.isr == (1, 2)

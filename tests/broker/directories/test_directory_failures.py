"""A directory that fails under a running broker: who is told, and who leads then."""

from __future__ import annotations

import pytest

from ottla.broker.directories.directory_failures import DirectoryFailures
from ottla.broker.engine.tasks import Tasks
from ottla.coordinator.controller.specs import TopicSpec
from ottla.coordinator.store import paths
from ottla.protocol.errors import ErrorCode
from tests.broker.support.cluster import Cluster, open_cluster
from tests.broker.support.node import TIMEOUT_MS, quiet


async def cluster_with_topic() -> Cluster:
    """Three brokers, the first of which is the controller and leads t-0."""
    cluster = await open_cluster(1, 2, 3)
    assert cluster.controllers() == [1]
    spec = TopicSpec("t", 1, 3, assignment={0: [1, 2, 3]})
    await cluster.nodes[1].admin.create_topics([spec], validate_only=False, timeout_ms=TIMEOUT_MS)
    await quiet()
    assert cluster.nodes[3].metadata.leader_of("t", 0)[0] == 1
    return cluster


async def failures_of(cluster: Cluster, node_id: int) -> DirectoryFailures:
    """The teller of one broker, in its session."""
    teller = DirectoryFailures(node_id, cluster.clock, Tasks())
    await teller.begin(cluster.session(node_id))
    return teller


def replicas(cluster: Cluster) -> tuple[int, list[int], list[int]]:
    """Leader, ISR and offline replicas of t-0, as the third broker knows them."""
    state = cluster.nodes[3].metadata.image.partition("t", 0)
    assert state is not None
    return state.leader, list(state.isr), list(state.offline_replicas)


async def test_another_replica_leads_when_a_directory_has_failed() -> None:
    """KIP-112, S-12: the broker keeps its session, so no other event would cause an election."""
    cluster = await cluster_with_topic()
    cluster.nodes[1].replicas.errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    teller = await failures_of(cluster, 1)
    teller.on_failure("/d1")
    await quiet()

    assert replicas(cluster) == (2, [2, 3], [1])
    assert cluster.nodes[2].replicas.leaders["t", 0] == 2
    assert cluster.store.read_tree().children(paths.LOG_DIR_EVENTS) == []


@pytest.mark.parametrize("lost", ["requests_to_lose", "answers_to_lose"])
async def test_a_failure_is_announced_until_the_store_has_said_yes(lost: str) -> None:
    """A disk seldom fails alone; and twice announced does no harm."""
    cluster = await cluster_with_topic()
    cluster.nodes[1].replicas.errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    teller = await failures_of(cluster, 1)
    setattr(cluster.session(1), lost, 1)
    teller.on_failure("/d1")
    teller.on_failure("/d2")
    await quiet()
    await cluster.clock.advance(500)

    assert replicas(cluster) == (2, [2, 3], [1])


async def test_a_failure_without_a_session_is_announced_in_the_next_one() -> None:
    """And a session that ends in the very moment it began breaks nothing."""
    cluster = await cluster_with_topic()
    cluster.nodes[2].replicas.errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    teller = await failures_of(cluster, 2)
    await teller.end()
    teller.on_failure("/d1")
    await quiet()
    before = replicas(cluster)
    await teller.begin(cluster.session(2))
    await teller.end()
    await quiet()
    await teller.begin(cluster.session(2))
    await quiet()

    assert before == (1, [1, 2, 3], [])
    assert replicas(cluster) == (1, [1, 3], [2])


async def test_an_announcement_of_a_healthy_broker_changes_nothing() -> None:
    """It may have been written by an earlier life of the broker."""
    cluster = await cluster_with_topic()
    before = cluster.nodes[3].metadata.image.partition("t", 0)
    teller = await failures_of(cluster, 1)
    teller.on_failure("/d1")
    await quiet()

    assert cluster.nodes[3].metadata.image.partition("t", 0) == before

"""The compose file means a cluster: its services as processes, with a real ZooKeeper.

What no schema and no look at the settings shows: the brokers find each other, clients inside and
outside are told addresses that work for them, and one broker may be killed.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.protocol.messages.metadata import MetadataRequest
from tests.compose.composition import COMPOSE_FILE, Composition
from tests.compose.processes import Cluster
from tests.support.pages import Figures, figure, parse_figures, read_page
from tests.support.raw_client import RawClient
from tests.zookeeper.shared import need_zookeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ottla.protocol.ports import Address

BROKERS = [broker.name for broker in Composition().brokers]
TOPIC = "orders"
LIMIT_S = 120

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All services, healthy by their own checks."""
    need_zookeeper()
    directory: Path = tmp_path_factory.mktemp("compose")
    with Cluster(directory) as running:
        running.wait_until_healthy()
        yield running


async def _nodes(address: Address) -> dict[int, tuple[str, int]]:
    async with RawClient(address.host, address.port) as client:
        answer = await client.call(9, MetadataRequest(topics=[]))
    return {node.node_id: (node.host, node.port) for node in answer.brokers}


def _figures(cluster: Cluster, name: str) -> Figures:
    page = read_page(cluster.inside(name, 9404), "/metrics")
    assert page.status == 200
    return parse_figures(page.text)


def _sum(cluster: Cluster, names: list[str], metric: str) -> float:
    return sum(
        value
        for name in names
        for (found, _labels), value in _figures(cluster, name).items()
        if found == metric
    )


async def _until(is_so: Callable[[], bool], what: str) -> None:
    for _ in range(LIMIT_S * 4):
        if await asyncio.to_thread(is_so):
            return
        await asyncio.sleep(0.25)
    raise AssertionError(f"not within {LIMIT_S} seconds: {what}")


async def test_clients_are_told_addresses_of_their_own_side(cluster: Cluster) -> None:
    """Inside the names of containers, outside the published ports; each asked at its own door."""
    outside = {1: cluster.outside(9092), 2: cluster.outside(9093), 3: cluster.outside(9094)}
    inside = {number: cluster.inside(f"broker{number}", 19092) for number in (1, 2, 3)}

    for number in (1, 2, 3):
        assert await _nodes(outside[number]) == outside
        assert await _nodes(inside[number]) == inside


async def test_exactly_one_broker_speaks_for_the_cluster(cluster: Cluster) -> None:
    """A monitor that scrapes all of them must not count the cluster three times."""
    controllers = "kafka_controller_kafkacontroller_activecontrollercount"

    assert _sum(cluster, BROKERS, controllers) == 1
    assert _sum(cluster, BROKERS, "kafka_brokers") == 3


async def test_a_killed_broker_costs_nothing_that_was_acknowledged(cluster: Cluster) -> None:
    """The promise of three replicas with two in sync, kept by what the file sets and no more."""
    servers = ",".join(str(cluster.outside(port)) for port in (9092, 9093, 9094))
    async with ottla.Admin(servers) as admin:
        await admin.create_topic(ottla.NewTopic(TOPIC, 3))
    under_replicated = "kafka_topic_partition_under_replicated_partition"
    replicas = "kafka_topic_partition_replicas"
    await _until(lambda: _sum(cluster, BROKERS, replicas) >= 9, "three replicas of each partition")
    acknowledged = []
    async with ottla.Producer(servers) as producer:
        for number in range(200):
            if number == 100:
                cluster.kill("broker2")
            value = b"%d" % number
            delivery = await producer.send(TOPIC, value, partition=number % 3)
            await delivery
            acknowledged.append(value)
    left = [name for name in BROKERS if name != "broker2"]
    await _until(lambda: _sum(cluster, left, "kafka_brokers") == 2, "the dead one is noticed")
    await _until(lambda: _sum(cluster, left, under_replicated) >= 3, "a replica is missed")

    cluster.start("broker2")
    await asyncio.to_thread(cluster.wait_until_healthy, "broker2")
    await _until(lambda: _sum(cluster, BROKERS, under_replicated) == 0, "all are in sync again")
    # The controller has taken it out of the sets of replicas; their leaders have put it back.
    assert _sum(cluster, left, "kafka_server_replicamanager_isrexpands_total") >= 2
    copied = "kafka_server_brokertopicmetrics_replicationbytesin_total"
    assert _sum(cluster, ["broker2"], copied) > 0
    maxlag = "kafka_server_replicafetchermanager_maxlag"
    await _until(lambda: _sum(cluster, BROKERS, maxlag) == 0, "nobody is behind")
    read = await _read(servers, len(acknowledged))

    assert sorted(read, key=int) == acknowledged
    assert _sum(cluster, BROKERS, "kafka_topic_partition_current_offset") >= len(acknowledged)


async def _read(servers: str, count: int) -> list[bytes]:
    config = ottla.ConsumerConfig(offset_reset="earliest")
    found: list[bytes] = []
    async with ottla.Consumer(servers, config) as consumer:
        consumer.assign(await consumer.partitions_of(TOPIC))
        async with asyncio.timeout(LIMIT_S):
            while len(found) < count:
                found += [record.value or b"" for record in await consumer.poll(500)]
    return found


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_the_job_of_the_profile_finds_the_brokers_and_loads(cluster: Cluster) -> None:
    """The command that stands at the head of the file, word for word, twice."""
    (line,) = (one for one in COMPOSE_FILE.read_text("utf-8").splitlines() if "run --rm" in one)
    words = shlex.split(line.partition("--rm spark ")[2])
    servers = ",".join(str(cluster.outside(port)) for port in (9092, 9093, 9094))
    async with ottla.Admin(servers) as admin:
        if all(view.name != TOPIC for view in await admin.list_topics()):
            await admin.create_topic(ottla.NewTopic(TOPIC, 3))
    async with ottla.Producer(servers) as producer:
        for number in range(30):
            await producer.send(TOPIC, b"%d" % number, partition=number % 3)
    first = await asyncio.to_thread(cluster.run, "spark", *words)
    second = await asyncio.to_thread(cluster.run, "spark", *words)

    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)
    assert found["rows"] == sum(end - start for start, end in found["offsets"][TOPIC].values())
    assert found["rows"] >= 30
    assert (second.returncode, second.stdout) == (0, "nothing new\n"), second.stderr


async def test_a_stop_leaves_the_cluster_in_order(cluster: Cluster) -> None:
    """SIGTERM within the grace period of the file, with status 0, and the others go on."""
    assert cluster.stop("broker3") == 0
    left = ["broker1", "broker2"]
    await _until(lambda: _sum(cluster, left, "kafka_brokers") == 2, "its leaving is noticed")

    cluster.start("broker3")
    await asyncio.to_thread(cluster.wait_until_healthy, "broker3")
    assert figure(_figures(cluster, "broker3"), "ottla_ready") == 1


async def test_without_zookeeper_brokers_live_and_are_not_ready(cluster: Cluster) -> None:
    """Neither a restart of them nor sending clients to them would help."""
    address = cluster.inside("broker1", 9404)
    cluster.zookeeper.kill()
    try:
        await _until(lambda: read_page(address, "/readyz").status == 503, "it is noticed")
        assert "no session with ZooKeeper" in read_page(address, "/readyz").text
        assert read_page(address, "/healthz") == (200, "ok\n")
    finally:
        cluster.zookeeper.start()

    await asyncio.to_thread(cluster.wait_until_healthy)

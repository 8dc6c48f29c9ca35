"""A cluster whose followers do not fetch by themselves: the test fetches in their names."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.broker.server.in_process import BrokersInProcess
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from tests.broker.support.requests import TOPIC, batch, fetch, produce
from tests.support.cluster import RunningCluster, real_ports, running_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.replica.leading import Leading
    from ottla.broker.server.broker import Broker
    from tests.support.raw_client import RawClient

VERSION = 17


class Replicated:
    """A topic of one partition on three brokers; ``first`` and ``second`` follow."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.leader_id = cluster[1].metadata.leader_of(TOPIC, 0)[0]
        self.first, self.second = sorted({1, 2, 3} - {self.leader_id})
        image = cluster[1].metadata.image
        self.topic_id = image.topics[TOPIC].topic_id

    @property
    def leader(self) -> Broker:
        return self.cluster[self.leader_id]

    @property
    def partition(self) -> PartitionRuntime:
        return self.on(self.leader_id)

    @property
    def leading(self) -> Leading:
        leading = self.partition.replica.leading
        assert leading is not None
        return leading

    @property
    def high_watermark(self) -> int:
        return self.partition.replica.high_watermark

    def on(self, node_id: int) -> PartitionRuntime:
        found = self.cluster[node_id].partitions.find(TOPIC, 0)
        assert found is not None
        return found

    def connect(self, node_id: int | None = None) -> RawClient:
        return self.cluster.connect(self.leader_id if node_id is None else node_id)

    def fetch(self, node_id: int, offset: int, **more: Any) -> FetchRequest:
        """What that follower would ask; it does not wait unless told to."""
        lifecycle = self.cluster[node_id].state.lifecycle
        assert lifecycle is not None
        broker_epoch = more.pop("broker_epoch", lifecycle.broker_epoch)
        part = FetchPartition(
            partition=0,
            current_leader_epoch=more.pop("current_leader_epoch", self.partition.leader_epoch),
            fetch_offset=offset,
            last_fetched_epoch=more.pop("last_fetched_epoch", -1),
            log_start_offset=0,
            partition_max_bytes=1 << 20,
        )
        topic = FetchTopic(topic=TOPIC, topic_id=self.topic_id, partitions=[part])
        return FetchRequest(
            replica_state=ReplicaState(node_id, broker_epoch),
            topics=[topic],
            **{"max_wait_ms": 0, "min_bytes": 1, **more},
        )

    async def fetched(self, node_id: int, offset: int, **more: Any) -> Any:
        """That follower has fetched once: its partition's answer."""
        async with self.connect() as client:
            answer = await client.call(VERSION, self.fetch(node_id, offset, **more))
        return answer.responses[0].partitions[0]

    async def consumed(self, node_id: int, offset: int, **more: Any) -> Any:
        """A consumer has fetched from that broker: its partition's answer."""
        asked = fetch(offset, **more)
        async with self.connect(node_id) as client:
            asked.topics[0].topic_id = self.topic_id
            answer = await client.call(VERSION, asked)
        return answer.responses[0].partitions[0]

    async def produced(self, acks: int = 1, node_id: int | None = None) -> Any:
        """One record has been answered: its partition's answer."""
        async with self.connect(node_id) as client:
            answer = await client.call(11, produce(batch(b"x"), acks))
        return answer.responses[0].partition_responses[0]


async def until(holds: Any) -> None:
    """Wait for what must come."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def create_replicated(cluster: RunningCluster, configs: dict[str, str] | None = None) -> None:
    """Make the topic, and wait until every broker has its replica."""
    wanted = CreatableTopic(
        name=TOPIC,
        num_partitions=1,
        replication_factor=3,
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()
        ],
    )
    async with cluster.connect(cluster.controller.node_id) as client:
        made = await client.call(7, CreateTopicsRequest(topics=[wanted], timeout_ms=5000))
    assert made.topics[0].error_code == 0, made

    def has_all() -> bool:
        replicas = [cluster[node].partitions.find(TOPIC, 0) for node in (1, 2, 3)]
        return all(one is not None and one.is_open for one in replicas) and all(
            cluster[node].metadata.topic(TOPIC) is not None for node in (1, 2, 3)
        )

    await until(has_all)


@asynccontextmanager
async def racked_cluster(settings: dict[str, str]) -> AsyncIterator[RunningCluster]:
    """Three brokers in the racks r1, r2 and r3."""
    wanted = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data", **settings}
    running = BrokersInProcess(real_ports(), wanted, 3)
    running._configs = [
        replace(config, broker_rack=f"r{config.broker_id}") for config in running._configs
    ]
    await running.start()
    try:
        yield RunningCluster(running)
    finally:
        await running.stop()


@asynccontextmanager
async def replicated(
    settings: dict[str, str] | None = None, *, fetching: bool = False, **configs: str
) -> AsyncIterator[Replicated]:
    """Three brokers and a topic; followers are still unless they are to be ``fetching``."""
    async with running_cluster(3, settings) as cluster:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        await create_replicated(cluster, named)
        site = Replicated(cluster)
        if not fetching:
            for node in (site.first, site.second):
                await cluster[node].parts.fetchers.stop()
        yield site

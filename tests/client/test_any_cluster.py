"""What survives the failure of one of three brokers, on any cluster of Kafka's protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import ottla
from ottla.protocol.ids import TopicPartition
from tests.client.support.membered import SETTINGS
from tests.client.support.sites import PATIENCE_S, cluster_of, read_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.support.sites import Apaches

COUNT = 300

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def three(kind: str, apaches: Apaches) -> Iterator[ottla.Cluster]:
    """Three brokers; who kills one starts it again."""
    with cluster_of(kind, apaches, 3, SETTINGS) as cluster:
        yield cluster


def new_topic(cluster: ottla.Cluster) -> TopicPartition:
    """Create a topic of one partition, on all three brokers; an acknowledged record is on two of
    them."""
    name = f"t{uuid4().hex[:8]}"
    cluster.create_topic(name, configs={"min.insync.replicas": 2})
    return TopicPartition(name, 0)


@pytest.mark.requirement("PRD-28")
async def test_records_are_there_once_and_in_order_although_the_leader_dies(
    three: ottla.Cluster,
) -> None:
    """Idempotence: batches whose answers died with the leader are sent again, to another."""
    where = new_topic(three)
    leader = three.leader(where.topic)
    values = [b"%d" % number for number in range(COUNT)]
    async with (
        asyncio.timeout(PATIENCE_S),
        ottla.Producer(three.bootstrap_servers, linger_ms=0, batch_bytes=200) as producer,
    ):
        deliveries = []
        for number, value in enumerate(values):
            deliveries.append(await producer.send(where.topic, value, partition=0))
            if number == COUNT // 2:
                await deliveries[0]
                await asyncio.to_thread(three.faults.kill, leader)
        delivered = [await delivery for delivery in deliveries]
    await asyncio.to_thread(three.faults.restart, leader)

    assert [one.offset for one in delivered] == list(range(COUNT))
    assert await read_all(three.bootstrap_servers, where) == values


async def test_a_transaction_ends_although_its_coordinator_dies(three: ottla.Cluster) -> None:
    """Its successor knows of it; what was aborted stays unseen."""
    where = new_topic(three)
    servers = three.bootstrap_servers
    async with (
        asyncio.timeout(PATIENCE_S),
        ottla.Admin(servers) as admin,
        ottla.Producer(servers, transactional_id=where.topic) as producer,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(where.topic, b"aborted", partition=0))
        await producer.abort_transaction()
        await producer.begin_transaction()
        await (await producer.send(where.topic, b"committed", partition=0))
        view = (await admin.transactions.describe_transactions([where.topic]))[where.topic]
        assert not isinstance(view, ottla.ClientError)
        await asyncio.to_thread(three.faults.kill, view.coordinator_id)
        await producer.commit_transaction()
        async with producer.transaction():
            await producer.send(where.topic, b"next", partition=0)
    await asyncio.to_thread(three.faults.restart, view.coordinator_id)

    assert await read_all(servers, where, "read_committed") == [b"committed", b"next"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_reads_on_although_a_leader_dies(three: ottla.Cluster, protocol: str) -> None:
    """No record is skipped and, in a group that stays, none is read twice."""
    where = new_topic(three)
    servers, topic = three.bootstrap_servers, where.topic
    config = ottla.ConsumerConfig(
        group_id=topic, group_protocol="consumer" if protocol == "consumer" else "classic"
    )
    values: list[bytes | None] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        ottla.Producer(servers) as producer,
        ottla.Consumer(servers, config, offset_reset="earliest") as consumer,
    ):
        await consumer.subscribe([topic])
        await producer.send_batch(topic, [b"%d" % number for number in range(10)])
        while len(values) < 10:
            values += [record.value for record in await consumer.poll(500)]
        await consumer.commit()
        leader = three.leader(topic)
        await asyncio.to_thread(three.faults.kill, leader)
        await producer.send_batch(topic, [b"%d" % number for number in range(10, 20)])
        while len(values) < 20:
            values += [record.value for record in await consumer.poll(500)]
        await consumer.commit()
        stands = await consumer.committed()
    await asyncio.to_thread(three.faults.restart, leader)

    assert values == [b"%d" % number for number in range(20)]
    assert stands[where].offset == 20

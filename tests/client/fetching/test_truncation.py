"""Consumers whose partition gets another leader: with the same past, and with another (KIP-320)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import pytest

import ottla
from ottla.client.process.errors import LogTruncated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SETTINGS = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
SHARED = [b"shared %d" % number for number in range(5)]
LOST = [b"lost %d" % number for number in range(5)]
# More than were lost, so that the position exists in the new leader's log as well.
NEW = [b"new %d" % number for number in range(8)]


class Scene:
    """Three brokers and a topic on all of them."""

    def __init__(self, cluster: ottla.Cluster) -> None:
        self.cluster = cluster
        self.where = ottla.TopicPartition(f"t{uuid4().hex[:8]}", 0)
        cluster.create_topic(self.where.topic)

    async def write(self, values: list[bytes]) -> None:
        async with ottla.Producer(self.cluster.bootstrap_servers) as producer:
            for value in values:
                await producer.send(self.where.topic, value)

    async def consumer(self, offset_reset: Literal["earliest", "none"]) -> ottla.Consumer:
        """A consumer that has read the records that are lost later."""
        consumer = ottla.Consumer(
            self.cluster.bootstrap_servers,
            offset_reset=offset_reset,
            metadata_max_age_ms=500,
            fetch_wait_ms=50,
        )
        await consumer.start()
        consumer.assign([self.where])
        consumer.seek(self.where, 0)
        return consumer

    async def lose(self) -> None:
        """The leader that alone has the newest records dies, and one without them leads."""
        leader = self.cluster.leader(self.where.topic)
        behind, other = {1, 2, 3} - {leader}
        self.cluster.faults.kill(behind)
        self.cluster.faults.kill(other)
        await self.write(LOST)

    async def change_past(self) -> None:
        leader = self.cluster.leader(self.where.topic)
        self.cluster.faults.kill(leader)
        for broker in {1, 2, 3} - {leader}:
            self.cluster.faults.restart(broker)
        await self.write(NEW)


async def take(consumer: ottla.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [record.value or b"" for record in await consumer.poll(200)]
    return found


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    with ottla.Cluster(brokers=3, settings=SETTINGS) as cluster:
        yield Scene(cluster)


@pytest.mark.slow
async def test_a_consumer_goes_on_where_the_new_leaders_past_begins(scene: Scene) -> None:
    """At its old offset it would pass over records of the new leader, and never know."""
    await scene.write(SHARED)
    consumer = await scene.consumer("earliest")
    assert await take(consumer, 5) == SHARED
    await scene.lose()
    assert await take(consumer, 5) == LOST

    await scene.change_past()

    assert await take(consumer, 8) == NEW
    await consumer.close()


@pytest.mark.slow
async def test_without_a_policy_the_application_hears_of_another_past(scene: Scene) -> None:
    """Records that were read are gone: only the application can say whether that matters."""
    await scene.write(SHARED)
    consumer = await scene.consumer("none")
    await take(consumer, 5)
    await scene.lose()
    await take(consumer, 5)

    await scene.change_past()
    with pytest.raises(LogTruncated, match="differs from offset 5 on") as raised:
        await take(consumer, 1)
    consumer.seek(scene.where, raised.value.end)

    assert await take(consumer, 8) == NEW
    await consumer.close()


async def test_a_consumer_goes_on_with_a_leader_of_the_same_past(scene: Scene) -> None:
    """No record is read twice, and only the check of the epoch delays the fetch."""
    await scene.write(SHARED)
    consumer = await scene.consumer("none")
    await take(consumer, 5)
    old = scene.cluster.leader(scene.where.topic)
    scene.cluster.faults.kill(old)
    await scene.write(NEW)

    assert await take(consumer, 8) == NEW
    assert scene.cluster.leader(scene.where.topic) != old
    await consumer.close()

"""Topics on any broker of Kafka's protocol: sizes, times, growth, deletion and lost answers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import ottla
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.client.support.membered import SETTINGS
from tests.client.support.sites import cluster_of, soon
from tests.support.watched_net import WatchedNet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.records.consumer_record import ConsumerRecord
    from tests.client.support.sites import Apaches

PATIENCE_S = 120


@pytest.fixture(scope="module")
def one(kind: str, apaches: Apaches) -> Iterator[ottla.Cluster]:
    """One broker."""
    with cluster_of(kind, apaches, settings=SETTINGS) as cluster:
        yield cluster


def new_topic(cluster: ottla.Cluster, **configs: object) -> TopicPartition:
    """The first partition of a topic with these settings, dots for underscores."""
    name = f"t{uuid4().hex[:8]}"
    cluster.create_topic(
        name, configs={key.replace("_", "."): value for key, value in configs.items()}
    )
    return TopicPartition(name, 0)


async def read(
    cluster: ottla.Cluster, where: TopicPartition, count: int, **settings: Any
) -> list[ConsumerRecord[bytes, bytes]]:
    """Read so many records from the beginning."""
    found: list[ConsumerRecord[bytes, bytes]] = []
    config = ottla.ConsumerConfig(offset_reset="earliest", **settings)
    async with (
        asyncio.timeout(PATIENCE_S),
        ottla.Consumer[bytes, bytes](cluster.bootstrap_servers, config) as consumer,
    ):
        consumer.assign([where])
        while len(found) < count:
            found += await consumer.poll(1_000)
    return found


async def test_a_record_that_is_larger_than_a_fetch_is_read(one: ottla.Cluster) -> None:
    """The first batch of an answer comes whatever its size is (KIP-74)."""
    where = new_topic(one, max_message_bytes=4_000_000)
    value = bytes(range(256)) * 12_000
    async with ottla.Producer(one.bootstrap_servers, request_bytes_max=4_000_000) as producer:
        delivered = await (await producer.send(where.topic, value))
    (record,) = await read(one, where, 1, partition_bytes_max=10_000, fetch_bytes_max=10_000)

    assert delivered.offset == 0
    assert record.value == value


async def test_a_record_that_is_too_large_for_its_topic_is_refused(one: ottla.Cluster) -> None:
    """The next record is accepted."""
    where = new_topic(one, max_message_bytes=10_000)
    async with ottla.Producer(one.bootstrap_servers, linger_ms=0) as producer:
        with pytest.raises(ottla.RequestRefused) as refused:
            await (await producer.send(where.topic, bytes(20_000)))
        delivered = await (await producer.send(where.topic, b"small"))

    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert refused.value.topic == where.topic
    assert delivered.offset == 0


async def test_a_topic_may_have_the_times_of_its_broker(one: ottla.Cluster) -> None:
    """The producer gets the broker's timestamps, and readers see the same."""
    where = new_topic(one, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1_000)
    async with ottla.Producer(one.bootstrap_servers) as producer:
        delivered = await (await producer.send(where.topic, b"x", timestamp=1))
    (record,) = await read(one, where, 1)

    assert before_ms <= delivered.timestamp == record.timestamp


async def test_partitions_that_are_added_are_written_to(one: ottla.Cluster) -> None:
    """By a producer that knew the topic before."""
    where = new_topic(one)
    servers = one.bootstrap_servers
    async with (
        ottla.Admin(servers) as admin,
        ottla.Producer(servers, metadata_max_age_ms=200) as producer,
    ):
        await (await producer.send(where.topic, b"x"))
        await admin.create_partitions(where.topic, 3)
        async with asyncio.timeout(PATIENCE_S):
            while await producer.partition_count(where.topic) < 3:
                await (await producer.send(where.topic, b"x", partition=0))
        delivered = await (await producer.send(where.topic, b"y", partition=2))

    assert (delivered.partition, delivered.offset) == (2, 0)


async def test_a_topic_that_is_made_again_is_another(one: ottla.Cluster) -> None:
    """Offsets start over, also for producers and consumers of the old topic."""
    where = new_topic(one)
    servers = one.bootstrap_servers
    async with (
        asyncio.timeout(PATIENCE_S),
        ottla.Admin(servers) as admin,
        ottla.Producer(servers, metadata_max_age_ms=200) as producer,
        ottla.Consumer(servers, offset_reset="earliest", metadata_max_age_ms=200) as consumer,
    ):
        for value in (b"1", b"2", b"3"):
            await (await producer.send(where.topic, value))
        consumer.assign([where])
        found = [record.value for record in await consumer.poll(60_000)]
        await admin.delete_topics([where.topic])
        await soon(admin.list_topics, lambda all_: where.topic not in [one.name for one in all_])
        one.create_topic(where.topic)
        later = await soon(
            lambda: producer.send(where.topic, b"again", partition=0), lambda sent: True
        )
        delivered = await later
        while b"again" not in found:
            found += [record.value for record in await consumer.poll(500)]

    assert delivered.offset == 0
    assert found[-1] == b"again"


class Cut(WatchedNet):
    """Cuts the connection when the third and the fifth request with records have left."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts = [3, 5]

    def is_due(self) -> bool:
        """Whether to cut now; once for each."""
        if self.cuts and len(self.addresses(ApiKey.PRODUCE)) >= self.cuts[0]:
            self.cuts.pop(0)
            return True
        return False

    async def connect(self, address: Any, options: Any) -> Any:
        socket: Any = await super().connect(address, options)
        send = socket.sendmsg

        def sendmsg(buffers: Any, *, more: bool = False) -> int:
            count: int = send(buffers, more=more)
            if self.is_due():
                socket.recv_into = broken
            return count

        socket.sendmsg = sendmsg
        return socket


def broken(_: memoryview) -> int:
    """Read from a connection that is gone: always an error."""
    raise ConnectionResetError("cut by the test")


async def test_answers_that_are_lost_double_nothing(one: ottla.Cluster) -> None:
    """The records are stored, the producer sends them again, and the broker knows them."""
    where = new_topic(one)
    net = Cut()
    values = [b"%d" % number for number in range(8)]
    async with (
        asyncio.timeout(PATIENCE_S),
        ottla.Producer(
            one.bootstrap_servers, environment=net.environment(), linger_ms=0
        ) as producer,
    ):
        offsets = [(await (await producer.send(where.topic, value))).offset for value in values]

    assert net.cuts == []
    assert len(net.addresses(ApiKey.PRODUCE)) >= 10
    assert offsets == list(range(8))
    assert [record.value for record in await read(one, where, 8)] == values

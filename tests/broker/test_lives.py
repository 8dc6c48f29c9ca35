"""What clients see of a broker that dies and comes back, perhaps at another address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.settings.config import ConsumerConfig, ProducerConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.wire.errors import ClientError
from tests.broker.support.requests import fetched
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from tests.broker.support.brokers import Brokers


async def make_topic(brokers: Brokers, node_id: int) -> None:
    """Creates a topic of one partition, with its only replica on that broker."""
    assignment = [CreatableReplicaAssignment(0, [node_id])]
    wanted = CreatableTopic("t", -1, -1, assignment)
    controller_id = brokers.alive[1].metadata.controller_id
    address = brokers.alive[controller_id].address
    async with RawClient(address.host, address.port) as client:
        answer = await client.call(5, CreateTopicsRequest([wanted], timeout_ms=10_000))
    assert answer.topics[0].error_code == ErrorCode.NONE
    await brokers.until(lambda: brokers.leader("t") == node_id)


def reader(brokers: Brokers) -> Consumer:
    """From the beginning."""
    config = ConsumerConfig(offset_reset="earliest")
    return Consumer(",".join(brokers.bootstrap), config)


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    """The next values of the partition."""
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in await consumer.poll()]
    return found


@pytest.mark.requirement("REP-01", "CTL-29")
async def test_without_replicas_a_dead_brokers_records_are_unavailable_and_not_lost(
    brokers: Brokers,
) -> None:
    """No other broker has them; the cluster can only report it until the broker is back."""
    await make_topic(brokers, 3)
    config = ProducerConfig(delivery_timeout_ms=1_500, request_timeout_ms=1_000)
    async with Producer(",".join(brokers.bootstrap), config) as producer:
        for number in range(10):
            await producer.send("t", b"%d" % number, partition=0)
        await producer.flush()
        await brokers.kill(3)
        await brokers.until(lambda: brokers.leader("t") == -1)
        delivery = await producer.send("t", b"refused", partition=0)
        with pytest.raises(ClientError):
            await delivery
    async with reader(brokers) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert await consumer.poll(500) == []
    await brokers.start_one(3)
    await brokers.until(lambda: brokers.leader("t") == 3)
    async with reader(brokers) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert await read(consumer, 10) == [b"%d" % number for number in range(10)]


@pytest.mark.requirement("ZKT-06")
async def test_a_broker_that_is_back_at_another_address_needs_no_change_of_its_readers(
    brokers: Brokers,
) -> None:
    """The id is what counts; where it is, the registration says."""
    await make_topic(brokers, 3)
    before = brokers.alive[3].address
    async with (
        Producer(",".join(brokers.bootstrap), ProducerConfig()) as producer,
        reader(brokers) as consumer,
    ):
        consumer.assign([TopicPartition("t", 0)])
        await (await producer.send("t", b"before", partition=0))
        assert await read(consumer, 1) == [b"before"]
        await brokers.kill(3)
        await brokers.until(lambda: brokers.leader("t") == -1)
        await brokers.start_one(3)
        await brokers.until(lambda: brokers.leader("t") == 3)
        await (await producer.send("t", b"after", partition=0))

        assert brokers.alive[3].address != before
        assert await read(consumer, 1) == [b"after"]


async def test_who_acts_on_an_older_leader_epoch_is_rejected(brokers: Brokers) -> None:
    """A replica that missed the election would copy from a history that is over (R-06)."""
    await make_topic(brokers, 3)
    await brokers.kill(3)
    await brokers.until(lambda: brokers.leader("t") == -1)
    await brokers.start_one(3)
    await brokers.until(lambda: brokers.leader("t") == 3)
    epoch = brokers.alive[3].metadata.leader_of("t", 0)[1]
    assert epoch > 0
    address = brokers.alive[3].address
    async with RawClient(address.host, address.port) as client:
        older = await fetched(client, 0, current_leader_epoch=epoch - 1)
        same = await fetched(client, 0, current_leader_epoch=epoch)

    assert older.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert same.error_code == ErrorCode.NONE

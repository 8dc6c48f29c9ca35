"""Deserializers and interceptors of a consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.consumer import Consumer
from ottla.client.process.errors import DeserializationFailed
from ottla.client.producer import Producer
from ottla.client.records import serializers
from ottla.client.records.interceptors import ConsumerInterceptor
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.records.consumer_record import ConsumerRecord
    from tests.client.support.toy_broker import ToyCluster

T0 = TopicPartition("t", 0)


async def filled(toy: ToyCluster, *values: bytes | None) -> None:
    """A topic with these values under the key "7"."""
    toy.add_topic("t")
    async with Producer(toy.bootstrap) as producer:
        for value in values:
            await producer.send("t", value, b"7")


@pytest.mark.requirement("PRD-31")
async def test_keys_and_values_come_back_as_the_application_wants_them(toy: ToyCluster) -> None:
    """A null stays null: a deserializer never sees a tombstone."""
    await filled(toy, b'{"a":1}', None)
    async with Consumer(
        toy.bootstrap,
        offset_reset="earliest",
        key_deserializer=int,
        value_deserializer=serializers.JSON.decode,
    ) as consumer:
        consumer.assign([T0])
        records = await consumer.poll(5_000)

    assert [(record.key, record.value) for record in records] == [(7, {"a": 1}), (7, None)]


async def test_a_record_that_cannot_be_read_is_stood_in_front_of(toy: ToyCluster) -> None:
    """Records before it come first; it cannot be skipped silently, but the application can seek
    past it."""
    await filled(toy, b"1", b"2", b"poison", b"4")
    async with Consumer(
        toy.bootstrap, offset_reset="earliest", value_deserializer=serializers.JSON.decode
    ) as consumer:
        consumer.assign([T0])
        assert [record.value for record in await consumer.poll(5_000)] == [1, 2]
        for _ in range(2):
            with pytest.raises(DeserializationFailed) as raised:
                await consumer.poll(5_000)
            assert consumer.position(T0) == 2
        consumer.seek(T0, raised.value.offset + 1)
        assert [record.value for record in await consumer.poll(5_000)] == [4]

    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 2)
    assert "the value at offset 2 cannot be deserialized" in str(raised.value)


class Watch(ConsumerInterceptor):
    """Lets even numbers through, and remembers what was committed."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, int] = {}

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        return [record for record in records if int(record.value or 0) % 2 == 0]

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.committed.update(offsets)


async def test_interceptors_see_what_is_read_and_what_is_committed(broker: str) -> None:
    """Records that an interceptor removes count as read, or they would come again for ever."""
    watch = Watch()
    async with Admin(broker) as admin, Producer(broker) as producer:
        await admin.create_topic(NewTopic("watched", 1, 1))
        await producer.send_values("watched", [b"1", b"2", b"3"])
        await producer.flush()
    where = TopicPartition("watched", 0)
    async with Consumer(
        broker,
        offset_reset="earliest",
        group_id="watched",
        auto_commit=False,
        value_deserializer=int,
        interceptors=(watch,),
    ) as consumer:
        consumer.assign([where])
        assert [record.value for record in await consumer.poll(5_000)] == [2]
        await consumer.commit()

    assert watch.committed == {where: 3}

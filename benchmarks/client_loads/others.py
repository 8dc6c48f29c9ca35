"""aiokafka and kafka-python, with their defaults."""

from __future__ import annotations

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from benchmarks.client_loads.orders import Orders, Watch


def produce_by_aiokafka(orders: Orders) -> Watch:
    """``send`` record by record."""

    async def work() -> Watch:
        topic, value = orders.topic, orders.value
        async with AIOKafkaProducer(bootstrap_servers=orders.address) as producer:
            await producer.partitions_for(topic)
            watch = Watch()
            for _ in range(orders.count):
                await producer.send(topic, value)
            await producer.flush()
            return watch.stop(orders.count)

    return uvloop.run(work())


def consume_by_aiokafka(orders: Orders) -> Watch:
    """``getmany``."""

    async def work() -> Watch:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=orders.address, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        consumer.assign([TopicPartition(orders.topic, 0)])
        seen = len(await consumer.getmany(timeout_ms=10_000, max_records=1))
        watch = Watch()
        while seen < orders.count:
            found = await consumer.getmany(timeout_ms=1000)
            seen += sum(map(len, found.values()))
        watch.stop(seen)
        await consumer.stop()
        return watch

    return uvloop.run(work())


def produce_by_kafka_python(orders: Orders) -> Watch:
    """``send`` record by record."""
    producer = KafkaProducer(bootstrap_servers=orders.address)
    topic, value = orders.topic, orders.value
    producer.partitions_for(topic)
    watch = Watch()
    for _ in range(orders.count):
        producer.send(topic, value)
    producer.flush()
    watch.stop(orders.count)
    producer.close()
    return watch


def consume_by_kafka_python(orders: Orders) -> Watch:
    """``poll``."""
    consumer = KafkaConsumer(
        bootstrap_servers=orders.address, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([KafkaTopicPartition(orders.topic, 0)])
    seen = len(consumer.poll(timeout_ms=10_000, max_records=1))
    watch = Watch()
    while seen < orders.count:
        seen += sum(map(len, consumer.poll(timeout_ms=1000, max_records=5000).values()))
    watch.stop(seen)
    consumer.close()
    return watch

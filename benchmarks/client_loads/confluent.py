"""confluent-kafka: the C client that most of the field uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.client_loads.orders import Orders, Watch

if TYPE_CHECKING:
    from typing import Any

RECORDS_PER_CALL = 10_000
RECORDS_PER_POLL = 5_000


def _producer(orders: Orders) -> Producer:
    producer = Producer(
        {"bootstrap.servers": orders.address, "queue.buffering.max.messages": 1_000_000}
    )
    producer.list_topics(orders.topic, timeout=10)
    return producer


def produce_records(orders: Orders) -> Watch:
    """``produce`` with the client's defaults."""
    producer, topic, value = _producer(orders), orders.topic, orders.value
    watch = Watch()
    for _ in range(orders.count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return watch.stop(orders.count)


def produce_batches(orders: Orders) -> Watch:
    """``produce_batch`` with the client's defaults."""
    producer, topic = _producer(orders), orders.topic
    watch, sent = Watch(), 0
    while sent < orders.count:
        messages = [{"value": orders.value}] * RECORDS_PER_CALL
        taken = producer.produce_batch(topic, messages)
        sent += taken
        if taken < RECORDS_PER_CALL:
            producer.poll(0.01)
    producer.flush()
    return watch.stop(sent)


def _consume(orders: Orders, **settings: Any) -> Watch:
    consumer = Consumer(
        {
            "bootstrap.servers": orders.address,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.assign([TopicPartition(orders.topic, 0, 0)])
    # It has read its first records, like the others.
    seen = len(consumer.consume(1, 10.0))
    watch = Watch()
    while seen < orders.count:
        seen += len(consumer.consume(RECORDS_PER_POLL, 1.0))
    watch.stop(seen)
    consumer.close()
    return watch


def consume_with_defaults(orders: Orders) -> Watch:
    """``consume`` with the client's defaults, whose pauses of a second are known."""
    return _consume(orders)


def consume_without_pauses(orders: Orders) -> Watch:
    """``consume`` with fetch.queue.backoff.ms=1."""
    return _consume(orders, **{"fetch.queue.backoff.ms": 1})

"""Loads by confluent-kafka, the client that most of the field uses."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic


def create_topic(
    address: str,
    topic: str,
    *,
    retention_bytes: int | None = None,
    partitions: int = 1,
    settings: dict[str, str] | None = None,
) -> None:
    """Create the topic and wait until it can be used."""
    admin = AdminClient({"bootstrap.servers": address})
    config = dict(settings or {})
    if retention_bytes is not None:
        config["retention.bytes"] = str(retention_bytes)
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        future.result(10)


def produce_records(address: str, topic: str, count: int, record_bytes: int) -> float:
    """Seconds until that many records are acknowledged with the client's defaults."""
    producer = Producer({"bootstrap.servers": address, "queue.buffering.max.messages": 1_000_000})
    value = b"x" * record_bytes
    started = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return time.perf_counter() - started

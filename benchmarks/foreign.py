"""Loads by confluent-kafka, the client that most of the field uses."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from collections.abc import Mapping


def create_topic(
    address: str,
    topic: str,
    *,
    retention_bytes: int | None = None,
    partitions: int = 1,
    replicas: int = 1,
    settings: dict[str, str] | None = None,
) -> None:
    """Create the topic and wait until it can be used."""
    admin = AdminClient({"bootstrap.servers": address})
    config = dict(settings or {})
    if retention_bytes is not None:
        config["retention.bytes"] = str(retention_bytes)
    for future in admin.create_topics(
        [NewTopic(topic, partitions, replicas, config=config)]
    ).values():
        future.result(10)


def produce_records(
    address: str,
    topic: str,
    count: int,
    record_bytes: int,
    settings: Mapping[str, str] | None = None,
) -> float:
    """Seconds until that many records are acknowledged; default: with the client's defaults."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "queue.buffering.max.messages": 1_000_000,
            **(settings or {}),
        }
    )
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

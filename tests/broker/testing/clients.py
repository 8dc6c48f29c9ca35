"""Blocking clients for tests of the cluster, as its users have them."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.testing.cluster import Cluster

QUIET = logging.getLogger("tests.quiet")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class Sent:
    """What became of some records: offsets of those that were acknowledged, errors of the rest."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.errors: list[ErrorCode | int] = []

    def on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.offsets.append(message.offset())
        else:
            code = error.code()
            self.errors.append(ErrorCode(code) if code >= 0 else code)


def send(cluster: Cluster, topic: str, values: list[bytes], **config: object) -> Sent:
    """Produce with acks=all to partition 0 and wait for the outcome of each."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": 20_000,
            "topic.metadata.refresh.interval.ms": 200,
            "reconnect.backoff.max.ms": 200,
            **{name.replace("_", "."): value for name, value in config.items()},
        },
        logger=QUIET,
    )
    sent = Sent()
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=sent.on_delivery)
    producer.flush(30)
    return sent


def read(cluster: Cluster, topic: str, count: int, timeout_s: float = 60.0) -> list[bytes]:
    """The first records of the topic, as a group of its own reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 200,
        },
        logger=QUIET,
    )
    try:
        consumer.subscribe([topic])
        found: list[bytes] = []
        for _attempt in range(int(timeout_s * 10)):
            if len(found) >= count:
                break
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found
    finally:
        consumer.close()

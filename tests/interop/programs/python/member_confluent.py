"""A member of a group, confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.interop.programs.python.membership import (
    POLL_S,
    Leaving,
    Orders,
    tell,
    tell_partitions,
    tell_read,
)


def main() -> None:
    orders, leaving = Orders(), Leaving()
    settings: dict[str, Any] = {
        "bootstrap.servers": orders.address,
        "group.id": orders.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 2_000,
    }
    if orders.instance is not None:
        settings["group.instance.id"] = orders.instance
    if orders.protocol == "consumer":
        settings |= {"group.protocol": "consumer", "group.remote.assignor": orders.strategy}
    else:
        settings |= {
            "partition.assignment.strategy": orders.strategy,
            "session.timeout.ms": orders.session_ms,
            "heartbeat.interval.ms": orders.heartbeat_ms,
        }
    consumer = Consumer(settings)

    def changed(event: str) -> Any:
        return lambda _consumer, partitions: tell_partitions(
            event, [(one.topic, one.partition) for one in partitions]
        )

    consumer.subscribe(
        orders.topics,
        on_assign=changed("assigned"),
        on_revoke=changed("revoked"),
        on_lost=changed("lost"),
    )
    while not leaving.is_set:
        for place in leaving.seeks():
            consumer.seek(TopicPartition(*place))
        reads: dict[tuple[str, int], list[int]] = {}
        for message in consumer.consume(orders.batch, POLL_S):
            if message.error() is not None:
                tell("error", text=str(message.error()))
                continue
            where = (message.topic(), message.partition())
            reads.setdefault(where, []).append(message.offset())
        if reads:
            tell_read(reads)
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                tell("commit failed", text=str(error))
            time.sleep(orders.pace_ms / 1000)
    consumer.close()
    tell("left")


main()

"""A member of a group, kafka-python 2 and 3."""

from __future__ import annotations

import logging
import time
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

from tests.interop.programs.python.membership import (
    POLL_S,
    Leaving,
    Orders,
    tell,
    tell_partitions,
    tell_read,
)

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_revoked(self, revoked: Any) -> None:
        tell_partitions("revoked", [tuple(one) for one in revoked])

    def on_partitions_assigned(self, assigned: Any) -> None:
        tell_partitions("assigned", [tuple(one) for one in assigned])

    def on_partitions_lost(self, lost: Any) -> None:
        tell_partitions("lost", [tuple(one) for one in lost])


def main() -> None:
    # Standard error is shown when a test fails.
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("kafka.cluster").setLevel(logging.WARNING)
    orders, leaving = Orders(), Leaving()
    more: dict[str, Any] = {}
    if orders.instance is not None:
        more["group_instance_id"] = orders.instance
    consumer = KafkaConsumer(
        bootstrap_servers=orders.address,
        group_id=orders.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=orders.session_ms,
        heartbeat_interval_ms=orders.heartbeat_ms,
        max_poll_records=orders.batch,
        metadata_max_age_ms=2_000,
        partition_assignment_strategy=[ASSIGNORS[orders.strategy]],
        **more,
    )
    consumer.subscribe(orders.topics, listener=Listener())
    for topic in orders.topics:
        # What it learns of a topic after it has joined makes it join again; if a poll ends while
        # it does, it never takes what it is given.
        consumer.partitions_for_topic(topic)
    while not leaving.is_set:
        for *where, offset in leaving.seeks():
            consumer.seek(TopicPartition(*where), offset)
        found = consumer.poll(timeout_ms=int(POLL_S * 1000))
        if found:
            tell_read(
                {tuple(where): [one.offset for one in records] for where, records in found.items()}
            )
            try:
                consumer.commit()
            except KafkaError as error:
                tell("commit failed", text=repr(error))
            time.sleep(orders.pace_ms / 1000)
    consumer.close()
    tell("left")


main()

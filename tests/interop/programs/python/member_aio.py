"""A member of a group, aiokafka."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

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
    async def on_partitions_revoked(self, revoked: Any) -> None:
        tell_partitions("revoked", [tuple(one) for one in revoked])

    async def on_partitions_assigned(self, assigned: Any) -> None:
        tell_partitions("assigned", [tuple(one) for one in assigned])


async def main() -> None:
    # Standard error is shown when a test fails.
    logging.basicConfig(level=logging.INFO)
    orders, leaving = Orders(), Leaving()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=orders.address,
        group_id=orders.group,
        group_instance_id=orders.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=orders.session_ms,
        heartbeat_interval_ms=orders.heartbeat_ms,
        metadata_max_age_ms=2_000,
        partition_assignment_strategy=(ASSIGNORS[orders.strategy],),
    )
    consumer.subscribe(orders.topics, listener=Listener())
    await consumer.start()
    while not leaving.is_set:
        for *where, offset in leaving.seeks():
            consumer.seek(TopicPartition(*where), offset)
        found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=orders.batch)
        if found:
            tell_read(
                {tuple(where): [one.offset for one in records] for where, records in found.items()}
            )
            try:
                await consumer.commit()
            except KafkaError as error:
                tell("commit failed", text=repr(error))
            await asyncio.sleep(orders.pace_ms / 1000)
    await consumer.stop()
    tell("left")


asyncio.run(main())

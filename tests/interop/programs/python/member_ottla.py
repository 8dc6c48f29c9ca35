"""A member of a group, our own consumer."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla import ClientError, Consumer, ConsumerConfig, RebalanceListener, TopicPartition
from tests.interop.programs.python.membership import (
    POLL_S,
    Leaving,
    Orders,
    tell,
    tell_partitions,
    tell_read,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class Listener(RebalanceListener):
    """Reports assigned and revoked partitions."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        tell_partitions("assigned", partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        tell_partitions("revoked", partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        tell_partitions("lost", partitions)


def settings(orders: Orders) -> ConsumerConfig:
    """The same settings as the foreign members have."""
    is_classic = orders.protocol == "classic"
    return ConsumerConfig(
        group_id=orders.group,
        group_instance_id=orders.instance,
        group_protocol="classic" if is_classic else "consumer",
        assignors=(orders.strategy,) if is_classic else ("range",),
        remote_assignor=None if is_classic else orders.strategy,
        session_timeout_ms=orders.session_ms,
        heartbeat_interval_ms=orders.heartbeat_ms,
        metadata_max_age_ms=2_000,
        offset_reset="earliest",
        auto_commit=False,
    )


async def main() -> None:
    # Standard error is shown when a test fails.
    logging.basicConfig(level=logging.INFO)
    orders, leaving = Orders(), Leaving()
    async with Consumer(orders.address, settings(orders)) as consumer:
        await consumer.subscribe(orders.topics, Listener())
        while not leaving.is_set:
            for topic, partition, offset in leaving.seeks():
                consumer.seek(TopicPartition(topic, partition), offset)
            records = await consumer.poll(POLL_S * 1000, orders.batch)
            if not records:
                continue
            reads: dict[tuple[str, int], list[int]] = {}
            for record in records:
                reads.setdefault((record.topic, record.partition), []).append(record.offset)
            tell_read(reads)
            try:
                await consumer.commit()
            except ClientError as error:
                tell("commit failed", text=str(error))
            await asyncio.sleep(orders.pace_ms / 1000)
    tell("left")


asyncio.run(main())

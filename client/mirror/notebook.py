"""Reads the offset notes, and creates the topic that holds them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cluster.all_brokers import certain_ids
from ottla.client.consumer import Consumer
from ottla.client.mirror.selection import NOTES_TOPIC
from ottla.client.mirror.translation import OffsetNote, read_note
from ottla.client.settings.config import ConsumerConfig, Isolation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.admin import Admin
    from ottla.client.process.environment import Environment

PARTITION = TopicPartition(NOTES_TOPIC, 0)
# Small segments, compacted soon: every mirror reads the whole topic when it starts.
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(8 * 1024 * 1024),
}
POLL_MS = 500.0
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


async def make_topic(admin: Admin, replication_factor: int) -> None:
    """Create the topic unless it exists. Raises RequestRefused."""
    try:
        await admin.create_topic(NewTopic(NOTES_TOPIC, 1, replication_factor, CONFIGS))
    except RequestRefused as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def read_notes(
    bootstrap: str, environment: Environment, properties: Mapping[str, str] = NO_PROPERTIES
) -> list[OffsetNote]:
    """All notes of a cluster, oldest first; empty if nothing was ever copied to it.

    ``properties``: settings of the client by Kafka's names. Raises ClientError; a retriable one
    while too few brokers agree on the topic's id."""
    config = ConsumerConfig(
        offset_reset="earliest", isolation=Isolation.READ_COMMITTED
    ).with_properties(properties, ignore_others=True)
    found: list[OffsetNote] = []
    async with Consumer(bootstrap, config, environment) as consumer:
        try:
            partitions = await consumer.partitions_of(NOTES_TOPIC)
            # A replaced leader that does not know it yet could return an old end offset, and so
            # could a leader of the deleted topic. Under a newer epoch than its own it refuses the
            # request.
            await certain_ids(consumer._cluster, [NOTES_TOPIC])
            ends = await consumer.end_offsets(partitions)
        except RequestRefused as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return []
            raise
        end = ends.get(PARTITION, 0)
        consumer.assign([PARTITION])
        consumer.seek_to_beginning()
        while (consumer.position(PARTITION) or 0) < end and not consumer.is_dry_before(
            PARTITION, end
        ):
            for record in await consumer.poll(POLL_MS):
                note = read_note(record.key, record.value)
                if note is not None:
                    found.append(note)
    return found

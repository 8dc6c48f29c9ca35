"""Reads the notes on where records went, and makes the topic that they are kept in."""

from __future__ import annotations

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
    from ottla.client.admin import Admin
    from ottla.client.process.environment import Environment

PARTITION = TopicPartition(NOTES_TOPIC, 0)
# Small segments, soon compacted: every mirror reads the whole of it when it starts.
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(8 * 1024 * 1024),
}
POLL_MS = 500.0


async def make_topic(admin: Admin, replication_factor: int) -> None:
    """Have the topic on that cluster. Raises RequestRefused."""
    try:
        await admin.create_topic(NewTopic(NOTES_TOPIC, 1, replication_factor, CONFIGS))
    except RequestRefused as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def read_notes(bootstrap: str, environment: Environment) -> list[OffsetNote]:
    """All notes that a cluster has, oldest first; none if nothing was ever copied to it.

    Raises ClientError; one that may pass as long as too few brokers agree which topic has them."""
    config = ConsumerConfig(offset_reset="earliest", isolation=Isolation.READ_COMMITTED)
    found: list[OffsetNote] = []
    async with Consumer(bootstrap, config, environment) as consumer:
        try:
            partitions = await consumer.partitions_of(NOTES_TOPIC)
            # A leader that was replaced and has not heard of it would tell an end of long ago, and
            # so would one of the topic before; one that is asked under a newer epoch than its own
            # refuses.
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

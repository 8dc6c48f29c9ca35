"""Asks brokers where the logs of their replicas end, followers included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.api import declare

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.wire.connection import Connection

# Kafka's replica id for tools that look at replicas: followers answer, too.
DEBUGGING_REPLICA_ID = -2
REPLICA_ENDS = declare(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, 1, 10)
LATEST_TIMESTAMP = -1
CONSUMER_REPLICA_ID = -1
# Replica id and isolation level of each reader.
READERS: dict[str | None, tuple[int, int]] = {
    None: (DEBUGGING_REPLICA_ID, 0),
    "uncommitted": (CONSUMER_REPLICA_ID, 0),
    "committed": (CONSUMER_REPLICA_ID, 1),
}
_ANY_EPOCH = -1
# The version that has isolation levels.
_ISOLATION = 2


async def ask_replica_ends(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    reader: str | None,
    timeout_ms: int,
) -> dict[TopicPartition, int]:
    """The ends of a broker's replicas for a reader; those that it does not tell are left out."""
    topics: dict[str, ListOffsetsTopic] = {}
    for where in partitions:
        topic = topics.setdefault(where.topic, ListOffsetsTopic(where.topic))
        topic.partitions.append(ListOffsetsPartition(where.partition, _ANY_EPOCH, LATEST_TIMESTAMP))
    replica_id, isolation = READERS[reader]
    version = connection.version_of(REPLICA_ENDS)
    request = ListOffsetsRequest(
        replica_id, isolation if version >= _ISOLATION else 0, list(topics.values()), timeout_ms
    )
    response = await connection.send(REPLICA_ENDS, request, version=version)
    return {
        TopicPartition(topic.name, part.partition_index): part.offset
        for topic in response.topics
        for part in topic.partitions
        if part.error_code == ErrorCode.NONE and part.offset >= 0
    }

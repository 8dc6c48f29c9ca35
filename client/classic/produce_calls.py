"""Sends one Produce request on one connection, and reads a broker's view of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cluster.cluster import METADATA
from ottla.client.fetching.offsets import CONSUMER_REPLICA_ID, LIST_OFFSETS
from ottla.client.fetching.positions import LATEST_TIMESTAMP
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.records.compression import Codec
    from ottla.protocol.records.record import Entry
    from ottla.wire.connection import Connection

PRODUCE_BY_NAME = declare(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, 3, 12)


class ProduceTerms(NamedTuple):
    """The settings of produce requests."""

    acks: int
    timeout_ms: int
    codec: Codec


async def produce(
    connection: Connection,
    entries: Mapping[str, Mapping[int, list[Entry]]],
    terms: ProduceTerms,
) -> dict[TopicPartition, RequestRefused]:
    """Send messages by topic and partition; return the refused partitions.

    Raises TransportError."""
    options = BatchOptions(terms.codec)
    request = ProduceRequest(
        acks=terms.acks,
        timeout_ms=terms.timeout_ms,
        topic_data=[
            TopicProduceData(
                topic,
                partition_data=[
                    PartitionProduceData(number, encode_batch(messages, options))
                    for number, messages in partitions.items()
                ],
            )
            for topic, partitions in entries.items()
        ],
    )
    if terms.acks == 0:
        await connection.send_unanswered(PRODUCE_BY_NAME, request)
        return {}
    answer = await connection.send(PRODUCE_BY_NAME, request)
    found: dict[TopicPartition, RequestRefused] = {}
    for topic in answer.responses:
        for part in topic.partition_responses:
            code = error_code(part.error_code)
            if code is not ErrorCode.NONE:
                where = TopicPartition(topic.name, part.index)
                broker = str(connection.address)
                found[where] = RequestRefused.for_partition(code, where, broker, part.error_message)
    return found


async def led_partitions(connection: Connection, topic: str) -> list[int]:
    """Return the partitions of a topic that the connected broker leads.

    The address need not be the broker's own: it may be a load balancer's. So the client asks for an
    offset of each partition, which only the leader returns. Raises RequestRefused."""
    request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    if connection.version_of(METADATA) < 4:
        request.allow_auto_topic_creation = True
    answer = (await connection.send(METADATA, request)).topics[0]
    code = error_code(answer.error_code)
    if code is not ErrorCode.NONE:
        raise RequestRefused(code, topic=topic, broker=str(connection.address))
    asked = [
        ListOffsetsPartition(one.partition_index, -1, LATEST_TIMESTAMP) for one in answer.partitions
    ]
    offsets = await connection.send(
        LIST_OFFSETS,
        ListOffsetsRequest(CONSUMER_REPLICA_ID, topics=[ListOffsetsTopic(topic, asked)]),
    )
    return sorted(
        one.partition_index
        for one in offsets.topics[0].partitions
        if error_code(one.error_code) is ErrorCode.NONE
    )

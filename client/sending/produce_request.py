"""Builds Produce requests from batches, and reads Produce responses by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sending.deliveries import ProducedPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import error_code
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.api import declare
from ottla.wire.errors import UnsupportedByBroker
from ottla.wire.requests import kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.cluster.metadata import ClusterMetadata
    from ottla.client.sending.batch import Batch
    from ottla.protocol.ports import Buffer
    from ottla.wire.connection import Connection

# Older versions carry message sets, which this client never writes.
PRODUCE = declare(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, 3)
# The last version that names topics instead of giving their ids.
LAST_BY_NAME = 12
# From this version on the broker adds the partitions to the transaction.
IMPLICIT_VERSION = 12


def build_request(
    batches: Sequence[tuple[Batch, Buffer]],
    metadata: ClusterMetadata,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return one request for batches of different partitions."""
    topics: dict[str, TopicProduceData] = {}
    for batch, encoded in batches:
        name, number = batch.partition
        topic = topics.get(name)
        if topic is None:
            view = metadata.topics.get(name)
            topic_id = ZERO_UUID if view is None else view.topic_id
            topic = topics[name] = TopicProduceData(name, topic_id)
        topic.partition_data.append(PartitionProduceData(number, kept(encoded)))
    return ProduceRequest(transactional_id, acks, timeout_ms, list(topics.values()))


def version_for(
    connection: Connection, request: ProduceRequest, *, is_implicit: bool = False
) -> int:
    """Return the newest version that can name all topics of the request and that matches the
    transaction's protocol version. Raises UnsupportedByBroker.

    A transaction is ``is_implicit`` if brokers add partitions to it by themselves (KIP-890)."""
    has_no_id = any(topic.topic_id == ZERO_UUID for topic in request.topic_data)
    version = connection.version_of(PRODUCE)
    if request.transactional_id is not None:
        if not is_implicit:
            version = min(version, IMPLICIT_VERSION - 1)
        elif version < IMPLICIT_VERSION:
            raise UnsupportedByBroker(
                f"the broker at {connection.address} does not know the version of transactions "
                "that its cluster is set to"
            )
    return min(version, LAST_BY_NAME) if has_no_id else version


def answers_of(
    response: ProduceResponse, metadata: ClusterMetadata
) -> dict[TopicPartition, ProducedPartition]:
    """Return the response by partition."""
    answers = {}
    for topic in response.responses:
        name = topic.name or name_of(metadata, topic.topic_id)
        for partition in topic.partition_responses:
            answers[TopicPartition(name, partition.index)] = answer_of(partition)
    return answers


def name_of(metadata: ClusterMetadata, topic_id: bytes) -> str:
    """Return the topic name for an id; "" if the id is unknown by now."""
    for topic in metadata.topics.values():
        if topic.topic_id == topic_id:
            return topic.name
    return ""


def answer_of(partition: PartitionProduceResponse) -> ProducedPartition:
    """Return one partition's part, with the first refused record's reason if there is one."""
    message = partition.error_message
    if partition.record_errors:
        first = partition.record_errors[0]
        reason = first.batch_index_error_message or message
        message = f"record {first.batch_index} of the batch: {reason}" if reason else message
    return ProducedPartition(
        error_code(partition.error_code),
        partition.base_offset,
        partition.log_append_time_ms,
        message,
    )

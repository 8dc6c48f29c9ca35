"""DescribeProducers (key 61): what a partition knows of those who write to it. Version 0.

Asked to find the transaction that holds readers back, and to end it (KIP-664). Every replica
answers from its own log: kafka-transactions asks one broker about all partitions that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.partition import PartitionRuntime


def handle(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Every producer that is remembered, by id; each partition has its own error."""
    response = DescribeProducersResponse()
    for topic in request.topics:
        allowed = services.authorizer.is_allowed(
            context, Operation.READ, AclResourceType.TOPIC, topic.name
        )
        response.topics.append(
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(services, topic.name, index)
                    if allowed
                    else _refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    for index in topic.partition_indexes
                ],
            )
        )
    return response


def _describe(services: Services, topic: str, index: int) -> PartitionResponse:
    partition = services.partitions.find(topic, index)
    if partition is None:
        if services.metadata.topic(topic) is None:
            return _refused(index, services.metadata.error_for_missing_topic(topic))
        return _refused(index, services.metadata.error_for_missing(topic, index))
    return PartitionResponse(partition_index=index, active_producers=_producers(partition))


def _producers(partition: PartitionRuntime) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=state.producer_epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.transaction_first_offset,
        )
        for producer_id, state in partition.replica.history.producers
    ]


def _refused(index: int, error: ErrorCode) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error, error_message=error.text)

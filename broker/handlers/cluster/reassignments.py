"""AlterPartitionReassignments (45) 0-1 and ListPartitionReassignments (46) 0: moves of replicas.

Answered by the controller (KIP-455). Replicas that are null give up the move of that partition;
version 1 can forbid to change how many there are (KIP-860).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ottla.broker.administration.partition_admin import MoveSpec, PartitionResult
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

_TWICE = "the request names this partition more than once"


async def alter(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin or give up moves; each partition gets its own answer, once its move has begun."""
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
    )
    if not services.authorizer.is_allowed(
        context, Operation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        error = response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        response.error_message = error.text
        response.responses = [
            ReassignableTopicResponse(
                topic.name,
                [
                    ReassignablePartitionResponse(one.partition_index, error, error.text)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return response
    wanted = [
        MoveSpec(
            TopicPartition(topic.name, one.partition_index),
            None if one.replicas is None else tuple(one.replicas),
        )
        for topic in request.topics
        for one in topic.partitions
    ]
    counts = Counter(spec.partition for spec in wanted)
    results = {
        item: PartitionResult(item, ErrorCode.INVALID_REQUEST, _TWICE)
        for item, count in counts.items()
        if count > 1
    }
    moves = [spec for spec in wanted if counts[spec.partition] == 1]
    try:
        for result in await services.admin.partitions.alter_moves(
            moves,
            allow_factor_change=request.allow_replication_factor_change,
            timeout_ms=request.timeout_ms,
        ):
            results[result.partition] = result
    except KafkaError as error:
        response.error_code, response.error_message = error.code, error.message
        return response
    response.responses = _by_topic([results[item] for item in counts])
    return response


def _by_topic(results: list[PartitionResult]) -> list[ReassignableTopicResponse]:
    found: dict[str, list[ReassignablePartitionResponse]] = defaultdict(list)
    for result in results:
        found[result.partition.topic].append(
            ReassignablePartitionResponse(
                result.partition.partition, result.error_code, result.message
            )
        )
    return [ReassignableTopicResponse(name, partitions) for name, partitions in found.items()]


def list_all(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The moves under way; partitions that are not being moved are left out."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    if not services.authorizer.is_allowed(
        context, Operation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        response.error_message = response.error_code.text
        return response
    wanted = None
    if request.topics is not None:
        wanted = [
            TopicPartition(topic.name, index)
            for topic in request.topics
            for index in topic.partition_indexes
        ]
    try:
        moves = services.admin.partitions.list_moves(wanted)
    except KafkaError as error:
        response.error_code, response.error_message = error.code, error.message
        return response
    found: dict[str, list[OngoingPartitionReassignment]] = defaultdict(list)
    for item, state in moves.items():
        found[item.topic].append(
            OngoingPartitionReassignment(
                item.partition, list(state.replicas), list(state.adding), list(state.removing)
            )
        )
    response.topics = [OngoingTopicReassignment(name, listed) for name, listed in found.items()]
    return response

"""DescribeCluster (60) and DescribeTopicPartitions (75): what this broker knows of the cluster.

DescribeCluster 0-2: 1 asks for brokers or KRaft controllers, 2 for fenced brokers as well, of which
there are none here. DescribeTopicPartitions 0 (KIP-966): topics in order of their names, as many
partitions as the client takes, and where to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.coordinator.metadata.image import PartitionState, TopicImage

BROKERS = 1
CONTROLLERS = 2
# Kafka's max.request.partition.size.limit.
PARTITIONS_PER_ANSWER_MAX = 2000


def describe(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Id, controller and live brokers, as clients of this listener reach them."""
    response = DescribeClusterResponse()
    if request.endpoint_type != BROKERS:
        response.error_code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == CONTROLLERS
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        response.error_message = "this is a broker: ask for brokers (endpoint type 1)"
        return response
    metadata = services.metadata
    response.cluster_id = metadata.cluster_id
    response.controller_id = metadata.controller_id
    response.brokers = [
        DescribeClusterBroker(
            broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack
        )
        for node in metadata.endpoints(context.listener)
    ]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = services.authorizer.cluster_operations(context)
    return response


def describe_topic_partitions(
    services: Services, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Named topics, or all if none is named, from the cursor on."""
    wanted = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is not None and _is_unusable(cursor, wanted):
        return _refused(wanted or {cursor.topic_name})
    names = wanted or {
        name
        for name in services.metadata.topic_names()
        if services.authorizer.may_see(context, Operation.DESCRIBE, AclResourceType.TOPIC, name)
    }
    left = max(1, min(request.response_partition_limit, PARTITIONS_PER_ANSWER_MAX))
    response = DescribeTopicPartitionsResponse()
    for name in sorted(names):
        if cursor is not None and name < cursor.topic_name:
            continue
        first = cursor.partition_index if cursor and name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = Cursor(name, first)
            break
        answer, next_index = _topic(services, context, name, first, left)
        response.topics.append(answer)
        left -= len(answer.partitions)
        if next_index is not None:
            response.next_cursor = Cursor(name, next_index)
            break
    return response


def _is_unusable(cursor: Cursor, wanted: set[str]) -> bool:
    """Whether it names no partition of what is asked for."""
    return cursor.partition_index < 0 or (bool(wanted) and cursor.topic_name not in wanted)


def _refused(names: set[str]) -> DescribeTopicPartitionsResponse:
    """The answer has no error of its own, so each topic has it."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(name=name, error_code=ErrorCode.INVALID_REQUEST)
            for name in sorted(names)
        ]
    )


def _topic(
    services: Services, context: RequestContext, name: str, first: int, limit: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """One topic from a partition on, and the partition that did not fit any more."""
    answer = DescribeTopicPartitionsResponseTopic(name=name)
    if not services.authorizer.is_allowed(context, Operation.DESCRIBE, AclResourceType.TOPIC, name):
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return answer, None
    answer.topic_authorized_operations = services.authorizer.topic_operations(context, name)
    topic = services.metadata.topic(name)
    if topic is None:
        answer.error_code = services.metadata.error_for_missing_topic(name)
        return answer, None
    answer.topic_id = topic.topic_id
    answer.is_internal = topic.is_internal
    live = {node.node_id for node in services.metadata.endpoints(context.listener)}
    indexes = _from(topic, first)
    answer.partitions = [_part(index, topic.partitions[index], live) for index in indexes[:limit]]
    return answer, indexes[limit] if len(indexes) > limit else None


def _from(topic: TopicImage, first: int) -> list[int]:
    return [index for index in sorted(topic.partitions) if index >= first]


def _part(
    index: int, state: PartitionState, live: set[int]
) -> DescribeTopicPartitionsResponsePartition:
    has_leader = state.leader in live
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader if has_leader else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.eligible_leaders),
        last_known_elr=[],
        offline_replicas=[
            node for node in state.replicas if node not in live or node in state.offline_replicas
        ],
    )

"""Metadata (key 3): brokers, topics, leaders. Versions 0-13.

0: an empty list means all topics; from 1 null does, and an empty list means none. 4: the client
says whether a missing topic may be created. 5: offline replicas. 7: leader epochs. 8: authorized
operations. 10: topic ids in the answer. 12: topics by id. 13: top-level error code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_BY_ID_VERSION = 12
_LISTENER_VERSION = 6


def handle(
    services: Services, context: RequestContext, request: MetadataRequest
) -> MetadataResponse:
    """Answer from the cache. Missing topics are created meanwhile where that is allowed: the answer
    says UNKNOWN_TOPIC_OR_PARTITION, as Kafka's does, and the client asks again. Of a topic that the
    client may see and not create it says TOPIC_AUTHORIZATION_FAILED."""
    wanted = request.topics
    if wanted is not None and not all(_is_named(topic, context.api_version) for topic in wanted):
        return _refuse_all(wanted)
    if wanted is None or (context.api_version == 0 and not wanted):
        return _respond(services, context, request, None)
    refused: set[str] = set()
    throttle_ms = 0
    if request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        missing = _missing(services, context, wanted)
        may_create = services.authorizer.may_create_topic
        refused = {name for name in missing if not may_create(context, name)}
        throttle_ms = _create(services, context, sorted(missing - refused))
    response = _respond(services, context, request, _each_once(wanted))
    response.throttle_time_ms = throttle_ms
    for topic in response.topics if refused else ():
        if topic.name in refused:
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return response


def _create(services: Services, context: RequestContext, names: list[str]) -> int:
    """Have topics created; the throttle time. What is above the client's quota is not created, and
    the client asks again (KIP-599)."""
    underway, count = services.internal_topics.is_underway, services.config.num_partitions
    mutations = services.quotas.mutations(context, strict_from=0)
    services.internal_topics.request(
        [name for name in names if not underway(name) and mutations.allow(name, count)]
    )
    return mutations.throttle_ms()


def _is_named(topic: MetadataRequestTopic, version: int) -> bool:
    if version < _BY_ID_VERSION:
        return topic.name is not None and topic.topic_id == ZERO_UUID
    return topic.name is not None or topic.topic_id != ZERO_UUID


def _refuse_all(wanted: list[MetadataRequestTopic]) -> MetadataResponse:
    """A request that makes no sense in its version is not looked at further."""
    error = ErrorCode.INVALID_REQUEST
    return MetadataResponse(
        error_code=error,
        topics=[
            MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
            for topic in wanted
        ],
    )


def _each_once(wanted: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    if len(wanted) == 1:
        return wanted
    return list({(topic.topic_id, topic.name): topic for topic in wanted}.values())


def _missing(
    services: Services, context: RequestContext, wanted: list[MetadataRequestTopic]
) -> set[str]:
    """Names that no topic has, that one can have, and that the client may see."""
    return {
        topic.name
        for topic in wanted
        if topic.name is not None
        and services.metadata.topic(topic.name) is None
        and services.metadata.error_for_missing_topic(topic.name) is _UNKNOWN
        and services.authorizer.may_see(
            context, Operation.DESCRIBE, AclResourceType.TOPIC, topic.name
        )
    }


def _respond(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    wanted: list[MetadataRequestTopic] | None,
) -> MetadataResponse:
    metadata = services.metadata
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in metadata.endpoints(context.listener)
        ],
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
    )
    if wanted is None:
        response.topics = [
            _topic(services, context, request, name)
            for name in metadata.topic_names()
            if services.authorizer.may_see(context, Operation.DESCRIBE, AclResourceType.TOPIC, name)
        ]
    else:
        response.topics = [_named(services, context, request, topic) for topic in wanted]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = services.authorizer.cluster_operations(context)
    return response


def _named(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    wanted: MetadataRequestTopic,
) -> MetadataResponseTopic:
    if wanted.topic_id != ZERO_UUID or wanted.name is None:
        name = services.metadata.topic_name(wanted.topic_id)
        if name is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
            )
    else:
        name = wanted.name
    if not services.authorizer.is_allowed(context, Operation.DESCRIBE, AclResourceType.TOPIC, name):
        # Who asks by id is not told the name, and who asks by name is not told the id.
        return MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            name=wanted.name,
            topic_id=wanted.topic_id,
        )
    return _topic(services, context, request, name)


def _topic(
    services: Services, context: RequestContext, request: MetadataRequest, name: str
) -> MetadataResponseTopic:
    topic = services.metadata.topic(name)
    answer = MetadataResponseTopic(name=name)
    if request.include_topic_authorized_operations:
        answer.topic_authorized_operations = services.authorizer.topic_operations(context, name)
    if topic is None:
        answer.error_code = services.metadata.error_for_missing_topic(name)
        return answer
    answer.topic_id, answer.is_internal = topic.topic_id, topic.is_internal
    live = {node.node_id for node in services.metadata.endpoints(context.listener)}
    for index in sorted(topic.partitions):
        state = topic.partitions[index]
        part = MetadataResponsePartition(
            partition_index=index,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            offline_replicas=[
                node
                for node in state.replicas
                if node not in live or node in state.offline_replicas
            ],
        )
        if state.leader not in live:
            # Only of a leader that lives can it be said that it lacks the client's listener.
            lives = state.leader in services.metadata.image.brokers
            part.error_code = (
                ErrorCode.LISTENER_NOT_FOUND
                if lives and context.api_version >= _LISTENER_VERSION
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
            part.leader_id = -1
        answer.partitions.append(part)
    return answer

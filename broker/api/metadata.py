"""Metadata (key 3): brokers, topics, leaders. Versions 0-13.

0: an empty list means all topics; from 1 null does, and an empty list means none. 4: the client
says whether a missing topic may be created. 5: offline replicas. 7: leader epochs. 8: authorized
operations. 10: topic ids in the answer. 12: topics by id. 13: top-level error code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.policy.door import CLUSTER_NAME, Operation, ResourceType
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
    from collections.abc import Coroutine

    from ottla.broker.context import RequestContext
    from ottla.broker.runtime.services import Services

_BY_ID_VERSION = 12
_LISTENER_VERSION = 6
_NO_OPERATIONS = -(2**31)
_AUTO_CREATE_TIMEOUT_MS = 5_000


def handle(
    services: Services, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    """Answer from the cache; missing topics are created first where that is allowed."""
    wanted = request.topics
    if wanted is None or (context.api_version == 0 and not wanted):
        return _respond(services, context, request, None)
    missing = [] if not request.allow_auto_topic_creation else _missing(services, context, wanted)
    if missing and services.config.auto_create_topics_enable:
        return _create_then_respond(services, context, request, missing)
    return _respond(services, context, request, wanted)


def _missing(
    services: Services, context: RequestContext, wanted: list[MetadataRequestTopic]
) -> list[str]:
    names = dict.fromkeys(topic.name for topic in wanted if topic.name is not None)
    return [
        name
        for name in names
        if services.metadata.topic(name) is None
        and services.door.is_allowed(context, Operation.CREATE, ResourceType.TOPIC, name)
    ]


async def _create_then_respond(
    services: Services, context: RequestContext, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    specs = [services.internal_topics.spec(name) for name in missing]
    deadline_ms = context.received_ms + _AUTO_CREATE_TIMEOUT_MS
    results = await services.topic_making.make(specs, timeout_ms=_AUTO_CREATE_TIMEOUT_MS)
    refused: dict[str, ErrorCode] = {
        result.name: result.error_code
        for result in results
        if result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    }
    # Another client was quicker: its topic exists, and shows here in a moment.
    coming = {
        result.name for result in results if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    }
    await services.metadata.wait_for(
        lambda image: coming <= image.topics.keys(), deadline_ms - services.ports.clock.now_ms()
    )
    return _respond(services, context, request, request.topics, refused)


def _respond(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    wanted: list[MetadataRequestTopic] | None,
    refused: dict[str, ErrorCode] | None = None,
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
            if services.door.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, name)
        ]
    else:
        response.topics = [
            _named(services, context, request, topic, refused or {}) for topic in wanted
        ]
    if request.include_cluster_authorized_operations and services.door.is_allowed(
        context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        response.cluster_authorized_operations = services.door.cluster_operations(context)
    return response


def _named(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    wanted: MetadataRequestTopic,
    refused: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    if wanted.topic_id != ZERO_UUID or wanted.name is None:
        if context.api_version < _BY_ID_VERSION or wanted.topic_id == ZERO_UUID:
            return MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=wanted.name or "",
                topic_id=wanted.topic_id,
            )
        name = services.metadata.topic_name(wanted.topic_id)
        if name is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
            )
    else:
        name = wanted.name
    if not services.door.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    if name in refused:
        return MetadataResponseTopic(error_code=refused[name], name=name)
    return _topic(services, context, request, name)


def _topic(
    services: Services, context: RequestContext, request: MetadataRequest, name: str
) -> MetadataResponseTopic:
    topic = services.metadata.topic(name)
    if topic is None:
        return MetadataResponseTopic(
            error_code=services.metadata.error_for_missing_topic(name), name=name
        )
    answer = MetadataResponseTopic(
        name=name, topic_id=topic.topic_id, is_internal=topic.is_internal
    )
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
    if request.include_topic_authorized_operations:
        answer.topic_authorized_operations = services.door.topic_operations(context, name)
    return answer

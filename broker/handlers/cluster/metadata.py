"""Metadata (key 3): brokers, topics, leaders. Versions 0-13.

0: an empty list means all topics; from 1 null does, and an empty list means none. 4: the client
says whether a missing topic may be created. 5: offline replicas. 7: leader epochs. 8: authorized
operations. 10: topic ids in the answer. 12: topics by id. 13: top-level error code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.metadata_topics import (
    encode_topic,
    kept_topics,
    put_operations,
)
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.encoding import EncodedItems
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Set

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.ids import Uuid

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_BY_ID_VERSION = 12


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
    response = _respond(services, context, request, _each_once(wanted), refused)
    response.throttle_time_ms = throttle_ms
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
    refused: Set[str] = frozenset(),
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
    with_operations = request.include_topic_authorized_operations
    if wanted is None:
        response.topics = kept_topics(metadata).every(
            services, context, with_operations=with_operations
        )
    else:
        named = _Named(services, context, refused, with_operations)
        response.topics = EncodedItems(named.encode(topic) for topic in wanted)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = services.authorizer.cluster_operations(context)
    return response


class _Named(NamedTuple):
    """The topics of a request that names them, each encoded. Those in ``refused`` are missing, and
    the client may not create them."""

    services: Services
    context: RequestContext
    refused: Set[str]
    with_operations: bool

    def encode(self, wanted: MetadataRequestTopic) -> bytes:
        services, context = self.services, self.context
        metadata, version = services.metadata, context.api_version
        if wanted.topic_id != ZERO_UUID or wanted.name is None:
            name = metadata.topic_name(wanted.topic_id)
            if name is None:
                return self._error(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
        else:
            name = wanted.name
        describe, kind = Operation.DESCRIBE, AclResourceType.TOPIC
        if not services.authorizer.is_allowed(context, describe, kind, name):
            # Who asks by id is not told the name, and who asks by name is not told the id.
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return self._error(error, wanted.name, wanted.topic_id)
        topic = metadata.topic(name)
        if topic is not None:
            found = kept_topics(metadata).one(metadata, version, context.listener, topic)
        elif name in self.refused:
            found = self._error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        else:
            found = self._error(metadata.error_for_missing_topic(name), name)
        if self.with_operations:
            operations = services.authorizer.topic_operations(context, name)
            found = put_operations(found, version, operations)
        return found

    def _error(self, error: ErrorCode, name: str | None, topic_id: Uuid = ZERO_UUID) -> bytes:
        answer = MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id)
        return encode_topic(answer, self.context.api_version)

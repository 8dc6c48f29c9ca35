"""FindCoordinator (key 10): which broker leads the partition that holds a group or a transactional
id. Versions 0-6.

0 knows groups only. 1: kind of key (0 group, 1 transactional id), error message. 4: many keys at
once, an error for each (KIP-699). 5: TRANSACTION_ABORTABLE allowed.
6: keys of share groups (KIP-932), refused with INVALID_REQUEST as by a Kafka without share groups.

The first request creates the internal topic; until it exists, and while too few brokers live for
it, the answer is COORDINATOR_NOT_AVAILABLE, which clients retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.coordinator.hashing import partition_for
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

_NONE = ErrorCode.NONE
_BATCH_VERSION = 4
_GROUP = 0
_TRANSACTION = 1


def find(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Answer from the metadata, so every broker gives the same answer."""
    if context.api_version >= _BATCH_VERSION:
        return FindCoordinatorResponse(
            coordinators=[
                _find(services, context, request.key_type, key) for key in request.coordinator_keys
            ]
        )
    found = _find(services, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        # Before there were many keys, the code's name, for a good answer too.
        error_message=found.error_message or _NONE.name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(services: Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
    may = services.authorizer.is_allowed
    if key_type == _GROUP:
        if not may(context, Operation.DESCRIBE, AclResourceType.GROUP, key):
            return _no_coordinator(key, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return _leader(services, context, OFFSETS_TOPIC, key)
    if key_type == _TRANSACTION:
        if not may(context, Operation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, key):
            return _no_coordinator(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _leader(services, context, TRANSACTIONS_TOPIC, key)
    return _no_coordinator(key, ErrorCode.INVALID_REQUEST)


def _leader(services: Services, context: RequestContext, name: str, key: str) -> Coordinator:
    topic = services.metadata.topic(name)
    if topic is None or not topic.partitions:
        services.internal_topics.request([name])
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader, _epoch = services.metadata.leader_of(name, partition_for(key, len(topic.partitions)))
    for node in services.metadata.endpoints(context.listener):
        if node.node_id == leader:
            return Coordinator(
                key=key,
                node_id=node.node_id,
                host=node.host,
                port=node.port,
                error_message="",
            )
    return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _no_coordinator(key: str, error: ErrorCode) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=error.text
    )

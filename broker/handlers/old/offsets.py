"""OffsetCommit 0 and OffsetFetch 0: positions in the metadata store, where consumers of Kafka 0.8
keep them.

The znode /consumers/GROUP/offsets/TOPIC/PARTITION holds the offset in digits. There are no members,
generations or expiry. Both metadata stores have the tree; in ZooKeeper, consumers that know nothing
of brokers read and write it too.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ottla.broker.handlers.shared import in_order, refused_parts
from ottla.coordinator.store.paths import consumer_offset
from ottla.coordinator.store.store import NodeExists, NoNode, StoreError
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.messages.offset_commit import OffsetCommitRequest
    from ottla.protocol.messages.offset_fetch import OffsetFetchRequest

_NO_OFFSET = -1


async def commit(
    services: Services, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Answered when the store has the positions."""
    group_id = request.group_id
    errors: dict[tuple[str, int], int] = {}
    refusal = _refusal(services, context, Operation.READ, group_id)
    refused = refused_parts(services, context, request.topics)
    for topic in request.topics:
        for part in topic.partitions:
            place = topic.name, part.partition_index
            error = refusal or refused.get(place)
            if error is None:
                metadata = part.committed_metadata or ""
                if len(metadata.encode()) > services.config.offset_metadata_max_bytes:
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    path = consumer_offset(group_id, *place)
                    error = await _write(services, path, str(part.committed_offset).encode())
            errors[place] = error
    topics = in_order(
        request.topics,
        errors.__getitem__,
        OffsetCommitResponseTopic,
        OffsetCommitResponsePartition,
    )
    return OffsetCommitResponse(topics=topics)


async def fetch(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """A position that is not there is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka."""
    group_id = request.group_id
    refusal = _refusal(services, context, Operation.DESCRIBE, group_id)
    response = OffsetFetchResponse()
    for topic in request.topics or ():
        allowed = services.authorizer.is_allowed(
            context, Operation.DESCRIBE, AclResourceType.TOPIC, topic.name
        )
        image = services.metadata.topic(topic.name)
        parts = []
        for index in topic.partition_indexes:
            part = OffsetFetchResponsePartition(
                partition_index=index, committed_offset=_NO_OFFSET, metadata=""
            )
            if refusal is not None:
                part.error_code = refusal
            elif not allowed:
                part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image is None or index not in image.partitions:
                part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                path = consumer_offset(group_id, topic.name, index)
                part.committed_offset, part.error_code = await _read(services, path)
            parts.append(part)
        response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=parts))
    return response


def _refusal(
    services: Services, context: RequestContext, operation: Operation, group_id: str
) -> ErrorCode | None:
    """Why the group's positions are not for this caller."""
    if not services.authorizer.is_allowed(context, operation, AclResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not group_id or "/" in group_id or group_id in (".", ".."):
        # It is a part of a path.
        return ErrorCode.INVALID_GROUP_ID
    return None


async def _read(services: Services, path: str) -> tuple[int, ErrorCode]:
    try:
        data = (await services.session().get(path)).data
    except NoNode:
        return _NO_OFFSET, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except (StoreError, KafkaError):
        return _NO_OFFSET, ErrorCode.COORDINATOR_NOT_AVAILABLE
    try:
        return int(data), ErrorCode.NONE
    except ValueError:
        return _NO_OFFSET, ErrorCode.UNKNOWN_SERVER_ERROR


async def _write(services: Services, path: str, data: bytes) -> ErrorCode:
    try:
        session = services.session()
        try:
            await session.set(path, data)
        except NoNode:
            await _create(session, path, data)
    except (StoreError, KafkaError):
        # Done or not: the consumer commits again, and the later word counts.
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


async def _create(session: MetadataSession, path: str, data: bytes) -> None:
    """The znode and what is above it. Another consumer may make them at the same time."""
    parts = path.split("/")[1:]
    for length in range(1, len(parts)):
        with contextlib.suppress(NodeExists):
            await session.create("/" + "/".join(parts[:length]))
    try:
        await session.create(path, data)
    except NodeExists:
        await session.set(path, data)

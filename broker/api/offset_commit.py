"""OffsetCommit (key 8): store a group's positions. Versions 2-9.

2-4: a retention time for all of them. 6: leader epochs. 7: static members. 9: member epochs
(KIP-848). Each partition has its own error. Not done here: topics by id (10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.policy.door import Operation, ResourceType
from ottla.broker.runtime.groups import caller_of
from ottla.broker.runtime.later import gathered
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.context import RequestContext
    from ottla.broker.runtime.services import Services

_NONE = ErrorCode.NONE
ErrorOf = dict[tuple[str, int], int]


def handle(services: Services, context: RequestContext, request: OffsetCommitRequest) -> Any:
    """Answered when every in-sync replica has the positions, or that is not known in time."""
    group_id = request.group_id
    if not services.door.is_allowed(context, Operation.READ, ResourceType.GROUP, group_id):
        return _refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: ErrorOf = {}
    for topic in request.topics:
        _judge(services, context, topic, refused)

    def refuse(error: ErrorCode) -> OffsetCommitResponse:
        return _refused(request, error)

    if not refused:
        return services.groups.handle(group_id, request, caller_of(context), refuse)
    accepted = _without(request, refused)
    if not accepted.topics:
        return _response(request, lambda place: refused[place])

    def build(parts: list[OffsetCommitResponse]) -> OffsetCommitResponse:
        known = dict(refused)
        for topic in parts[0].topics:
            for part in topic.partitions:
                known.setdefault((topic.name, part.partition_index), part.error_code)
        return _response(request, lambda place: known[place])

    later = services.groups.handle(group_id, accepted, caller_of(context), refuse)
    return gathered([later], build)


def _judge(
    services: Services,
    context: RequestContext,
    topic: OffsetCommitRequestTopic,
    refused: ErrorOf,
) -> None:
    """Note which partitions of the topic nobody may commit, or which are not there."""
    allowed = services.door.is_allowed(context, Operation.READ, ResourceType.TOPIC, topic.name)
    image = services.metadata.topic(topic.name)
    for part in topic.partitions:
        place = topic.name, part.partition_index
        if not allowed:
            refused[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image is None or part.partition_index not in image.partitions:
            refused[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _without(request: OffsetCommitRequest, refused: ErrorOf) -> OffsetCommitRequest:
    topics = []
    for topic in request.topics:
        partitions = [
            part for part in topic.partitions if (topic.name, part.partition_index) not in refused
        ]
        if partitions:
            topics.append(OffsetCommitRequestTopic(name=topic.name, partitions=partitions))
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=topics,
    )


def _refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return _response(request, lambda _place: error)


def _response(
    request: OffsetCommitRequest, error_of: Callable[[tuple[str, int]], int]
) -> OffsetCommitResponse:
    """An answer in the shape and order of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=part.partition_index,
                        error_code=error_of((topic.name, part.partition_index)),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

"""OffsetCommit (key 8): store a group's positions. Versions 2-9.

2-4: a retention time for all of them. 6: leader epochs. 7: static members. 9: member epochs
(KIP-848). Each partition has its own error. Not done here: topics by id (10).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.groups import caller_of
from ottla.broker.engine.deferred import gathered
from ottla.broker.handlers.shared import in_order, refused_parts, with_verdicts, without
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.handlers.shared import TopicAndIndex


def handle(services: Services, context: RequestContext, request: OffsetCommitRequest) -> Any:
    """Answered when every in-sync replica has the positions, or that is not known in time."""
    group_id = request.group_id
    if not services.authorizer.is_allowed(context, Operation.READ, AclResourceType.GROUP, group_id):
        return _refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = refused_parts(services, context, request.topics)

    def refuse(error: ErrorCode) -> OffsetCommitResponse:
        return _refused(request, error)

    if not refused and all(topic.partitions for topic in request.topics):
        return services.groups.handle(group_id, request, caller_of(context), refuse)
    accepted = copy(request)
    accepted.topics = without(request.topics, refused)
    if not accepted.topics:
        return _response(request, refused.__getitem__)

    def build(parts: list[OffsetCommitResponse]) -> OffsetCommitResponse:
        return _response(request, with_verdicts(refused, parts[0].topics))

    later = services.groups.handle(group_id, accepted, caller_of(context), refuse)
    return gathered([later], build)


def _refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return _response(request, lambda _place: error)


def _response(
    request: OffsetCommitRequest, error_of: Callable[[TopicAndIndex], int]
) -> OffsetCommitResponse:
    topics = in_order(
        request.topics, error_of, OffsetCommitResponseTopic, OffsetCommitResponsePartition
    )
    return OffsetCommitResponse(topics=topics)

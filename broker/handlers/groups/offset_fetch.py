"""OffsetFetch (key 9): read groups' positions. Versions 1-9.

2: null asks for all topics, and the answer has an error of its own. 5: leader epochs. 7: waits
for open transactions (KIP-447). 8: many groups at once (KIP-709), which may live in different
shards. 9: member id and epoch (KIP-848). A position that was never committed is -1 without any
error. Not done here: topics by id (10).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.groups import caller_of
from ottla.broker.engine.deferred import DeferredAnswer, gathered
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

_ERROR_VERSION = 2
_GROUPS_VERSION = 8
_NO_OFFSET = -1
_HIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def handle(services: Services, context: RequestContext, request: OffsetFetchRequest) -> Any:
    """Answered from memory, one question for each group."""
    if context.api_version < _GROUPS_VERSION:
        return _fetch(services, context, request)

    def build(parts: list[OffsetFetchResponse]) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[group for part in parts for group in part.groups])

    groups = [
        _fetch_group(services, context, group, require_stable=request.require_stable)
        for group in request.groups
    ]
    return gathered(groups, build)


# ---- one group, versions 1-7 ----


def _fetch(services: Services, context: RequestContext, request: OffsetFetchRequest) -> Any:
    refuse = partial(_refused, context, request)
    group_id = request.group_id
    if not services.authorizer.is_allowed(
        context, Operation.DESCRIBE, AclResourceType.GROUP, group_id
    ):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    hidden: list[OffsetFetchRequestTopic] = []
    if request.topics is not None:
        hidden = [one for one in request.topics if not _is_shown(services, context, one.name)]
        names = {topic.name for topic in hidden}
        wanted = [topic for topic in request.topics if topic.name not in names]
        request = OffsetFetchRequest(
            group_id=group_id, topics=wanted, require_stable=request.require_stable
        )

    def build(parts: list[OffsetFetchResponse]) -> OffsetFetchResponse:
        (response,) = parts
        if request.topics is None:
            response.topics = [
                topic for topic in response.topics if _is_listed(services, context, topic.name)
            ]
        if response.error_code == ErrorCode.NONE:
            response.topics += [_empty(topic, _HIDDEN) for topic in hidden]
        return response

    return gathered([_ask(services, context, group_id, request, refuse)], build)


def _refused(
    context: RequestContext, request: OffsetFetchRequest, error: ErrorCode
) -> OffsetFetchResponse:
    if context.api_version >= _ERROR_VERSION:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(topics=[_empty(topic, error) for topic in request.topics or ()])


def _empty(topic: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=error
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


# ---- many groups, versions 8 and 9 ----


def _fetch_group(
    services: Services,
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    *,
    require_stable: bool,
) -> DeferredAnswer[OffsetFetchResponse]:
    group_id = group.group_id

    def refuse(error: ErrorCode) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id=group_id, error_code=error)]
        )

    if not services.authorizer.is_allowed(
        context, Operation.DESCRIBE, AclResourceType.GROUP, group_id
    ):
        refused: DeferredAnswer[OffsetFetchResponse] = DeferredAnswer()
        refused.complete(refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return refused
    hidden: list[OffsetFetchRequestTopics] = []
    wanted: list[OffsetFetchRequestTopics] | None = None
    if group.topics is not None:
        hidden = [one for one in group.topics if not _is_shown(services, context, one.name)]
        names = {topic.name for topic in hidden}
        wanted = [topic for topic in group.topics if topic.name not in names]

    def build(parts: list[OffsetFetchResponse]) -> OffsetFetchResponse:
        for answer in parts[0].groups:
            if wanted is None:
                answer.topics = [
                    topic for topic in answer.topics if _is_listed(services, context, topic.name)
                ]
            if answer.error_code == ErrorCode.NONE:
                answer.topics += [_hidden_of(topic) for topic in hidden]
        return parts[0]

    single = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                member_id=group.member_id,
                member_epoch=group.member_epoch,
                topics=wanted,
            )
        ],
        require_stable=require_stable,
    )
    return gathered([_ask(services, context, group_id, single, refuse)], build)


def _hidden_of(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=_HIDDEN
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, partitions=partitions)


# ---- both ----


def _ask(
    services: Services,
    context: RequestContext,
    group_id: str,
    request: OffsetFetchRequest,
    refuse: Callable[[ErrorCode], OffsetFetchResponse],
) -> DeferredAnswer[OffsetFetchResponse]:
    """A client that requires stable offsets resumes from them and would process records twice after
    a stale answer, so no answer is better than an old one. Other clients only inspect offsets."""
    caller = caller_of(context)
    if request.require_stable:
        return services.groups.handle_current(group_id, request, caller, refuse, context.peer)
    return services.groups.handle(group_id, request, caller, refuse)


def _is_shown(services: Services, context: RequestContext, topic: str) -> bool:
    return services.authorizer.is_allowed(context, Operation.DESCRIBE, AclResourceType.TOPIC, topic)


def _is_listed(services: Services, context: RequestContext, topic: str) -> bool:
    """The same for a topic that the client has not named."""
    return services.authorizer.may_see(context, Operation.DESCRIBE, AclResourceType.TOPIC, topic)

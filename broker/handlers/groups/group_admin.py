"""Looking at groups and removing them: ListGroups (16), DescribeGroups (15), DeleteGroups (42),
OffsetDelete (47), and ConsumerGroupDescribe (69) for groups of the consumer protocol.

ListGroups 0-5, DescribeGroups 0-6, DeleteGroups 0-2, OffsetDelete 0, ConsumerGroupDescribe 0-1.
ListGroups tells of the groups that this broker coordinates; admin tools ask every broker. The
others are taken apart into one question per group, as groups live in different shards.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.groups import caller_of
from ottla.broker.engine.deferred import DeferredAnswer, gathered
from ottla.broker.handlers.shared import without
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import consumer_group_describe as consumer_groups
from ottla.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

_NOT_ALLOWED = ErrorCode.GROUP_AUTHORIZATION_FAILED
LISTED_PER_SLICE_MAX = 500
"""A millisecond or two."""


class _Question(NamedTuple):
    """What the caller must be allowed, and the request about that one group."""

    operation: Operation
    group_id: str
    request: Any


async def list_all(
    services: Services, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """Every group that is coordinated here, or those in some states and of some types.

    Slice by slice: a broker may have a hundred thousand, and heartbeats of all of them to answer
    meanwhile."""
    may = services.authorizer.may_see
    sees_all = may(context, Operation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
    response = ListGroupsResponse()
    listing = services.groups.listing(request)
    while found := list(islice(listing, LISTED_PER_SLICE_MAX)):
        for one in found:
            if isinstance(one, ErrorCode):
                # Half a list would look like a whole one.
                response.error_code = response.error_code or one
            elif one is not None and (
                sees_all or may(context, Operation.DESCRIBE, AclResourceType.GROUP, one.group_id)
            ):
                response.groups.append(one)
        if len(found) == LISTED_PER_SLICE_MAX:
            await services.ports.clock.sleep(0)
    return response


def describe(services: Services, context: RequestContext, request: DescribeGroupsRequest) -> Any:
    """Each group's state and members. A group that does not exist is "Dead" before version 6."""

    def refuse(group_id: str, error: ErrorCode) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[DescribedGroup(error_code=error, group_id=group_id)])

    def build(parts: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        groups = [group for part in parts for group in part.groups]
        for group in groups:
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                operations = services.authorizer.group_operations(context, group.group_id)
                group.authorized_operations = operations
        return DescribeGroupsResponse(groups=groups)

    def single(group_id: str) -> _Question:
        return _Question(Operation.DESCRIBE, group_id, DescribeGroupsRequest(groups=[group_id]))

    parts = [_ask(services, context, single(group_id), refuse) for group_id in request.groups]
    return gathered(parts, build)


def describe_consumer_groups(
    services: Services,
    context: RequestContext,
    request: consumer_groups.ConsumerGroupDescribeRequest,
) -> Any:
    """Each group's epochs, members and their assignments; GROUP_ID_NOT_FOUND for classic ones."""
    whole = consumer_groups.ConsumerGroupDescribeResponse

    def refuse(group_id: str, error: ErrorCode) -> consumer_groups.ConsumerGroupDescribeResponse:
        described = consumer_groups.DescribedGroup(
            error_code=error, error_message=error.text, group_id=group_id
        )
        return whole(groups=[described])

    def build(
        parts: list[consumer_groups.ConsumerGroupDescribeResponse],
    ) -> consumer_groups.ConsumerGroupDescribeResponse:
        groups = [
            _without_hidden_topics(services, context, group)
            for part in parts
            for group in part.groups
        ]
        for group in groups:
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                operations = services.authorizer.group_operations(context, group.group_id)
                group.authorized_operations = operations
        return whole(groups=groups)

    def single(group_id: str) -> _Question:
        return _Question(
            Operation.DESCRIBE,
            group_id,
            consumer_groups.ConsumerGroupDescribeRequest(group_ids=[group_id]),
        )

    parts = [
        _ask(services, context, single(group_id), refuse)
        if group_id
        else _complete(refuse(group_id, ErrorCode.INVALID_GROUP_ID))
        for group_id in request.group_ids
    ]
    return gathered(parts, build)


def _without_hidden_topics(
    services: Services, context: RequestContext, group: consumer_groups.DescribedGroup
) -> consumer_groups.DescribedGroup:
    """The group, or that it cannot be shown: half of an assignment would mislead."""
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    may = services.authorizer.is_allowed
    if all(
        may(context, Operation.DESCRIBE, AclResourceType.TOPIC, topic) for topic in sorted(topics)
    ):
        return group
    return consumer_groups.DescribedGroup(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="the group reads topics that the caller may not see",
        group_id=group.group_id,
    )


def delete(services: Services, context: RequestContext, request: DeleteGroupsRequest) -> Any:
    """Delete groups without members, with their committed offsets."""

    def refuse(group_id: str, error: ErrorCode) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=group_id, error_code=error)]
        )

    def build(parts: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[result for part in parts for result in part.results])

    def single(group_id: str) -> _Question:
        return _Question(Operation.DELETE, group_id, DeleteGroupsRequest(groups_names=[group_id]))

    parts = [
        _ask(services, context, single(group_id), refuse)
        for group_id in dict.fromkeys(request.groups_names)
    ]
    return gathered(parts, build)


def _ask(
    services: Services,
    context: RequestContext,
    question: _Question,
    refuse: Callable[[str, ErrorCode], Any],
) -> DeferredAnswer[Any]:
    """One question about one group, if the caller may ask it."""
    operation, group_id, request = question
    if not services.authorizer.is_allowed(context, operation, AclResourceType.GROUP, group_id):
        return _complete(refuse(group_id, _NOT_ALLOWED))
    return services.groups.handle(group_id, request, caller_of(context), partial(refuse, group_id))


def _complete(response: Any) -> DeferredAnswer[Any]:
    answered: DeferredAnswer[Any] = DeferredAnswer()
    answered.complete(response)
    return answered


def delete_offsets(
    services: Services, context: RequestContext, request: OffsetDeleteRequest
) -> Any:
    """Forget positions, but for topics that a member reads (KIP-496)."""
    may = services.authorizer.is_allowed
    if not may(context, Operation.DELETE, AclResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=_NOT_ALLOWED)
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    hidden = {
        topic.name
        for topic in request.topics
        if not may(context, Operation.READ, AclResourceType.TOPIC, topic.name)
    }
    refused = _refused_offsets(services, request, hidden)

    def build(parts: list[OffsetDeleteResponse]) -> OffsetDeleteResponse:
        (response,) = parts
        if response.error_code == ErrorCode.NONE:
            response.topics += refused
        return response

    places = {(topic.name, part.partition_index) for topic in refused for part in topic.partitions}
    later = services.groups.handle(
        request.group_id,
        OffsetDeleteRequest(
            group_id=request.group_id, topics=without(request.topics, dict.fromkeys(places, 0))
        ),
        caller_of(context),
        lambda error: OffsetDeleteResponse(error_code=error),
    )
    return gathered([later], build)


def _refused_offsets(
    services: Services, request: OffsetDeleteRequest, hidden: set[str]
) -> list[OffsetDeleteResponseTopic]:
    """What the caller may not see, and what is not there."""
    refused = []
    for topic in request.topics:
        known = services.metadata.topic(topic.name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name in hidden:
            known, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        parts = [
            OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=error)
            for part in topic.partitions
            if known is None or part.partition_index not in known.partitions
        ]
        if parts:
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
    return refused

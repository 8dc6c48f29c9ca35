"""Being in a group: JoinGroup (11), SyncGroup (14), Heartbeat (12), LeaveGroup (13), and the one
request of the consumer protocol, ConsumerGroupHeartbeat (68, KIP-848).

JoinGroup 0-9, SyncGroup 0-5, Heartbeat 0-4, LeaveGroup 0-5, ConsumerGroupHeartbeat 0-1; what each
version added is told in the message modules. JoinGroup and SyncGroup wait for the whole group, in
which they hold nothing but their place in the answers of their connection.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.groups import caller_of
from ottla.broker.engine.deferred import DeferredAnswer, gathered
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.coordinator.effects import RequestOrigin

_NAMELESS_PROTOCOL_VERSION = 7
_PROTOCOL_VERSION = 5
_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def join(services: Services, context: RequestContext, request: JoinGroupRequest) -> Any:
    """Answered when the group's next generation stands."""
    answer = _ask(services, context, request, partial(_no_join, context, request))
    if context.api_version >= _NAMELESS_PROTOCOL_VERSION and isinstance(answer, DeferredAnswer):
        return gathered([answer], _without_name)
    return answer


def sync(services: Services, context: RequestContext, request: SyncGroupRequest) -> Any:
    """Answered when the group's leader has said who reads what."""
    if context.api_version >= _PROTOCOL_VERSION and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return _ask(services, context, request, _no_sync)


def heartbeat(services: Services, context: RequestContext, request: HeartbeatRequest) -> Any:
    """A sign of life, and how a member hears that its group rebalances."""
    return _ask(services, context, request, _no_heartbeat)


def leave(services: Services, context: RequestContext, request: LeaveGroupRequest) -> Any:
    """Members leave; the others rebalance."""
    return _ask(services, context, request, lambda error: LeaveGroupResponse(error_code=error))


def consumer_heartbeat(
    services: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Any:
    """Join, stay, be assigned and leave, all in one."""
    refuse, may = _no_consumer_heartbeat, services.authorizer.is_allowed
    if not may(context, Operation.READ, AclResourceType.GROUP, request.group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for topic in request.subscribed_topic_names or ():
        if not may(context, Operation.DESCRIBE, AclResourceType.TOPIC, topic):
            return refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    caller = _caller(services, context)
    return services.groups.handle(request.group_id, request, caller, refuse)


def _caller(services: Services, context: RequestContext) -> RequestOrigin:
    """The member, whose rights limit what the expressions of its group match."""

    def may_describe(topic: str) -> bool:
        return services.authorizer.may_see(
            context, Operation.DESCRIBE, AclResourceType.TOPIC, topic
        )

    return caller_of(context, may_describe)


def _ask(
    services: Services,
    context: RequestContext,
    request: Any,
    refuse: Callable[[ErrorCode], Any],
) -> Any:
    group_id: str = request.group_id
    if not services.authorizer.is_allowed(context, Operation.READ, AclResourceType.GROUP, group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return services.groups.handle(group_id, request, _caller(services, context), refuse)


def _no_join(
    context: RequestContext, request: JoinGroupRequest, error: ErrorCode
) -> JoinGroupResponse:
    can_be_null = context.api_version >= _NAMELESS_PROTOCOL_VERSION
    return JoinGroupResponse(
        error_code=error,
        protocol_name=None if can_be_null else "",
        member_id=request.member_id,
    )


def _without_name(parts: list[JoinGroupResponse]) -> JoinGroupResponse:
    """Who is refused has no protocol: null, as soon as a version knows that."""
    (response,) = parts
    response.protocol_name = response.protocol_name or None
    return response


def _no_sync(error: ErrorCode) -> SyncGroupResponse:
    # Whatever was going on is forgotten: the member has to join again, here and not elsewhere.
    lost = error is _LOADING
    return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if lost else error)


def _no_heartbeat(error: ErrorCode) -> HeartbeatResponse:
    # All sessions start anew once the group is loaded, so there is nothing to be told yet.
    return HeartbeatResponse(error_code=ErrorCode.NONE if error is _LOADING else error)


def _no_consumer_heartbeat(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=error.text)

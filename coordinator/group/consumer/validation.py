"""Validates the fields of a ConsumerGroupHeartbeat that do not depend on the group's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.member import JOINING, LEAVING_FOR_A_WHILE
from ottla.coordinator.group.consumer.rebalance import supported_assignors
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin
    from ottla.coordinator.group.consumer.context import ConsumerContext
    from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

# From this version on clients generate their member id (KIP-1082).
OWN_MEMBER_ID_VERSION = 1


class Fault(NamedTuple):
    """Error code and text for a refused request."""

    error: ErrorCode
    text: str


def heartbeat_fault(
    request: ConsumerGroupHeartbeatRequest, caller: RequestOrigin, context: ConsumerContext
) -> Fault | None:
    """Why the request is invalid; None if it is valid."""
    text = _form_fault(request, caller) or _join_fault(request)
    if text is not None:
        return Fault(ErrorCode.INVALID_REQUEST, text)
    if _subscription_bytes(request) > context.scope.settings.max_record_bytes:
        # The record could not be written, and a group that cannot write is stuck (hazard G-10).
        return Fault(ErrorCode.INVALID_REQUEST, "the subscription is too large to be stored")
    offered = supported_assignors(context)
    if request.server_assignor is not None and request.server_assignor not in offered:
        names = ", ".join(offered)
        text = f"the assignor {request.server_assignor} is not supported; these are: {names}"
        return Fault(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    if request.subscribed_topic_regex:
        try:
            context.compile_pattern(request.subscribed_topic_regex)
        except ValueError as error:
            return Fault(ErrorCode.INVALID_REGULAR_EXPRESSION, f"not an RE2 expression: {error}")
    return None


def _form_fault(request: ConsumerGroupHeartbeatRequest, caller: RequestOrigin) -> str | None:
    if not request.group_id:
        return "the group id is empty"
    if request.instance_id == "":
        return "the instance id is empty"
    if request.rack_id == "":
        return "the rack id is empty"
    if request.member_epoch < LEAVING_FOR_A_WHILE:
        return f"the member epoch is {request.member_epoch}"
    if request.member_epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        return "only static members, with an instance id, may leave for a while"
    has_to_be_named = request.member_epoch != JOINING or caller.api_version >= OWN_MEMBER_ID_VERSION
    if has_to_be_named and not request.member_id:
        return "the member id is empty"
    return None


def _join_fault(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.member_epoch != JOINING:
        return None
    if request.rebalance_timeout_ms < 0:
        return "a joining member has to send its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a joining member owns nothing and has to send an empty list"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a joining member has to send a subscription, even an empty one"
    return None


def _subscription_bytes(request: ConsumerGroupHeartbeatRequest) -> int:
    """An estimate of the size of its record; the other fields are small."""
    names = request.subscribed_topic_names or ()
    # A name is at most four bytes a character, and its length stands before it.
    return sum(4 * len(name) + 5 for name in names) + 4 * len(request.subscribed_topic_regex or "")

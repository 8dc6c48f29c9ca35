"""Interprets a ConsumerGroupHeartbeat: its sender, its subscription and its owned partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.assignment import (
    NOTHING,
    assignment_of,
    difference,
    is_subset,
)
from ottla.coordinator.group.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerGroupMember,
    MemberSubscription,
)
from ottla.coordinator.group.consumer.reconcile import Report

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin
    from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member leaves, for good or temporarily."""
    return request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE)


def presentation(request: ConsumerGroupHeartbeatRequest) -> str:
    """How a joining member introduces itself, as text."""
    instance_id, regex = request.instance_id, request.subscribed_topic_regex
    text = "" if instance_id is None else f"instance {instance_id}, "
    text += f"topics {', '.join(request.subscribed_topic_names or ()) or 'none'}"
    return text if not regex else f"{text}, expression {regex}"


def report(request: ConsumerGroupHeartbeatRequest, member: ConsumerGroupMember) -> Report:
    """The owned partitions that the request reliably reports; None if it reports none.

    A full request follows a lost response. It may omit a partition that the member is still
    taking up:
    1. It was assigned p, which takes time. 2. It had to revoke p; that response was lost.
    3. It reports all it owns, without p. 4. It has taken up p.
    So a partition that it never reported does not count as revoked by such a request alone. If the
    next request reports nothing else, it confirms: the member got the response and dropped p."""
    assert not is_leaving(request), "what a member that leaves reports is released anyway"
    if request.member_epoch == JOINING:
        member.reported, member.unconfirmed = NOTHING, None
        return Report(NOTHING, is_final=True)
    # A report from an earlier epoch does not cover partitions assigned with this one.
    if request.member_epoch != member.progress.member_epoch:
        return Report(None)
    if request.topic_partitions is None:
        return Report(member.unconfirmed)
    owned = assignment_of(request.topic_partitions)
    missing = difference(member.progress.revoking, owned)
    is_doubtful = is_full(request) and not is_subset(missing, member.reported)
    assert missing or not is_doubtful, "only what a report leaves out can be in doubt"
    member.reported = owned
    member.unconfirmed = owned if is_doubtful else None
    return Report(None if is_doubtful else owned)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, as after an error, and needs a full response."""
    return request.member_epoch == JOINING or (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def repeats(
    request: ConsumerGroupHeartbeatRequest, caller: RequestOrigin, subscription: MemberSubscription
) -> bool:
    """Whether the request changes nothing of the member's subscription."""
    return (
        request.instance_id == subscription.instance_id
        and request.rebalance_timeout_ms in (-1, subscription.rebalance_timeout_ms)
        and request.subscribed_topic_regex in (None, subscription.regex)
        and request.server_assignor in (None, subscription.server_assignor)
        and request.rack_id in (None, subscription.rack_id)
        and caller.client_id == subscription.client_id
        and caller.client_host == subscription.client_host
        and subscription.classic is None
    )


def updated(
    known: MemberSubscription, request: ConsumerGroupHeartbeatRequest, caller: RequestOrigin
) -> MemberSubscription:
    """The subscription after the request; null means unchanged, an empty expression removes it."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    return MemberSubscription(
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topic_names=known.topic_names if names is None else tuple(sorted(set(names))),
        regex=known.regex if regex is None else regex or None,
        rebalance_timeout_ms=known.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        server_assignor=known.server_assignor
        if request.server_assignor is None
        else request.server_assignor,
    )


def wanted(subscription: MemberSubscription) -> tuple[tuple[str, ...], str | None, str | None]:
    """The fields that the target assignment depends on."""
    return subscription.topic_names, subscription.regex, subscription.server_assignor

"""Converts groups with members from one kind to the other (KIP-848, online migration).

Upgrade: a classic group of consumers becomes a KIP-848 group when the first KIP-848 member joins.
Members keep their partitions; classic members are asked to rejoin, and the broker assigns from then
on. Downgrade: when the last KIP-848 member leaves and classic ones remain, they become a classic
group, keep their partitions and rebalance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.group.consumer.embedded import held_by, wish_of
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ClassicMetadata, MemberSubscription
from ottla.coordinator.group.consumer.takeover import Migrant
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import RemoteProtocolError

if TYPE_CHECKING:
    from ottla.coordinator.group.classic.member import ClassicGroupMember
    from ottla.coordinator.group.common.record_values import GroupMetadataValue
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.consumer.context import ConsumerContext
    from ottla.coordinator.metadata.image import MetadataImage

UPGRADE_POLICIES = ("upgrade", "bidirectional")


def upgraded(classic: ClassicGroup, context: ConsumerContext) -> ConsumerGroup | None:
    """The KIP-848 group for a classic one; None if the conversion is forbidden or impossible.

    It is not in the log before it ``has_begun``, that is, before a member has joined it."""
    group = ConsumerGroup(classic.group_id, context)
    members = list(classic.roster.members.values())
    if not members:
        group.take_over(classic.generation.generation_id, (), classic.tombstones())
        return group
    settings = context.scope.settings
    if (
        settings.consumer_migration_policy not in UPGRADE_POLICIES
        or classic.protocol_type != PROTOCOL_TYPE
        or len(members) >= settings.consumer_max_size
    ):
        return None
    try:
        # A member that does not know its id yet will rejoin under another one.
        migrants = [_migrant(one, classic, context.image()) for one in members if not one.is_new]
    except RemoteProtocolError as error:
        note(context.scope, classic.group_id, f"refused, a member's bytes are malformed: {error}")
        return None
    group.take_over(classic.generation.generation_id, migrants, classic.tombstones())
    # Half is left for the changes of the join itself, which may concern every member.
    if 2 * group.opening_bytes > settings.max_record_bytes:
        # The log would refuse it and the shard be reloaded, at every try (hazard G-10).
        note(context.scope, classic.group_id, "refused, the group is too large to be written")
        return None
    return group


def _migrant(member: ClassicGroupMember, classic: ClassicGroup, image: MetadataImage) -> Migrant:
    # Without a generation no protocol is chosen: use the member's preferred one.
    chosen = classic.generation.protocol_name
    protocols = sorted(member.protocols, key=lambda protocol: protocol[0] != chosen)
    wish = wish_of(protocols[0][1], image)
    # Until a rebalance completes no member has an assignment; members that keep their partitions
    # across it (KIP-429) list them in their subscription.
    held = held_by(member.assignment, image) if member.assignment else wish.owned
    subscription = MemberSubscription(
        instance_id=member.instance_id,
        rack_id=wish.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=wish.topic_names,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, tuple(protocols)),
    )
    return Migrant(member.member_id, subscription, held)


def downgraded(group_id: str, stored: GroupMetadataValue, scope: GroupScope) -> ClassicGroup:
    """The classic group whose record has just been appended; its members are asked to rejoin."""
    group = ClassicGroup(group_id, scope)
    group.restore(stored)
    group.on_loaded(scope.moment)
    note(scope, group_id, "from consumer to classic: the last member of that protocol is gone")
    group.rebalance.prepare("the group has become a classic one")
    return group


def note(scope: GroupScope, group_id: str, detail: str) -> None:
    """Add a conversion event to the group's timeline."""
    scope.timeline.note(scope.moment, group_id, GroupEventKind.CONVERTED, detail=detail)

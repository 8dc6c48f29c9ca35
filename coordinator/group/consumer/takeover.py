"""Builds the records that convert a classic group to a KIP-848 group and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.common.record_values import GroupMetadataValue, MemberMetadata
from ottla.coordinator.group.consumer.assignment import difference, from_pairs, pairs_of
from ottla.coordinator.group.consumer.embedded import assignment_bytes
from ottla.coordinator.group.consumer.member import MemberAssignment, MemberState
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.group.consumer.assignment import Assignment
    from ottla.coordinator.group.consumer.changes import Changes
    from ottla.coordinator.group.consumer.context import ConsumerContext
    from ottla.coordinator.group.consumer.member import ConsumerGroupMember, MemberSubscription
    from ottla.coordinator.group.consumer.state import ConsumerGroupState
    from ottla.coordinator.metadata.image import MetadataImage

DOWNGRADE_POLICIES = ("downgrade", "bidirectional")


class Migrant(NamedTuple):
    """A member of a classic group and the partitions that it owns."""

    member_id: str
    subscription: MemberSubscription
    held: Assignment


def take_in(
    state: ConsumerGroupState, changes: Changes, generation_id: int, migrants: Iterable[Migrant]
) -> None:
    """Take over members with their partitions; their generation is their first member epoch."""
    assert state.is_void, "a group has one kind"
    for member_id, subscription, held in migrants:
        # If two members claim the same partition, one is wrong and loses it.
        mine = from_pairs(pair for pair in pairs_of(held) if pair not in state.owners)
        changes.put_subscription(member_id, subscription)
        changes.put_target(member_id, mine)
        progress = MemberAssignment(generation_id, generation_id, MemberState.STABLE, mine)
        changes.put_progress(member_id, progress)
    assert state.classic_count == len(state.members)
    changes.put_group_epoch(generation_id, state.metadata_hash)
    changes.put_assignment_epoch(generation_id, 0)


def may_go_back(state: ConsumerGroupState, context: ConsumerContext) -> bool:
    """Whether only classic members are left and they may become a classic group."""
    settings = context.scope.settings
    return (
        0 < len(state.members) == state.classic_count <= settings.max_size
        and settings.consumer_migration_policy in DOWNGRADE_POLICIES
    )


def classic_value(state: ConsumerGroupState, context: ConsumerContext) -> GroupMetadataValue:
    """The record value of these members as a classic group.

    Its generation is the highest member epoch; members at that epoch continue undisturbed."""
    assert 0 < len(state.members) == state.classic_count
    members = list(state.members.values())
    protocol = _shared_protocol(members)
    image = context.image()
    return GroupMetadataValue(
        protocol_type=PROTOCOL_TYPE,
        generation=max(member.progress.member_epoch for member in members),
        protocol=protocol,
        leader=members[0].member_id,
        current_state_timestamp=context.scope.moment.wall_ms,
        members=[_stored(member, protocol, image) for member in members],
    )


def _shared_protocol(members: list[ConsumerGroupMember]) -> str:
    """The first member's first protocol that all support: joining requires a common one."""
    supported = [dict(_protocols(member)) for member in members]
    return next(name for name in supported[0] if all(name in one for one in supported))


def _protocols(member: ConsumerGroupMember) -> tuple[tuple[str, bytes], ...]:
    classic = member.subscription.classic
    assert classic is not None, "only members of the classic protocol are left"
    return classic.protocols


def _stored(member: ConsumerGroupMember, protocol: str, image: MetadataImage) -> MemberMetadata:
    subscription, progress = member.subscription, member.progress
    classic = subscription.classic
    assert classic is not None, "only members of the classic protocol are left"
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=subscription.instance_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        rebalance_timeout=subscription.rebalance_timeout_ms,
        session_timeout=classic.session_timeout_ms,
        subscription=dict(classic.protocols)[protocol],
        assignment=assignment_bytes(
            difference(progress.assigned, progress.revoking), classic, image
        ),
    )

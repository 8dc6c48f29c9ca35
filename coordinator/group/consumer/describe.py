"""Describes a group for ConsumerGroupDescribe (KIP-848, member types by KIP-1099)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.assignment import Assignment, listed
from ottla.protocol.messages.consumer_group_describe import (
    Assignment as DescribedAssignment,
)
from ottla.protocol.messages.consumer_group_describe import (
    DescribedGroup,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_describe import (
    Member as DescribedMember,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.member import ConsumerGroupMember
    from ottla.coordinator.group.consumer.state import ConsumerGroupState
    from ottla.coordinator.metadata.image import MetadataImage

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def state_name(state: ConsumerGroupState) -> str:
    """Empty, Assigning (a target is due), Reconciling (not all members reached it) or Stable."""
    if not state.members:
        return "Empty"
    if state.assignment_epoch != state.group_epoch:
        return "Assigning"
    reached = state.assignment_epoch
    if all(member.is_reconciled_to(reached) for member in state.members.values()):
        return "Stable"
    return "Reconciling"


def described(
    state: ConsumerGroupState, image: MetadataImage, assignor_name: str
) -> DescribedGroup:
    """The group and its members, sorted by member id."""
    return DescribedGroup(
        group_id=state.group_id,
        group_state=state_name(state),
        group_epoch=state.group_epoch,
        assignment_epoch=state.assignment_epoch,
        assignor_name=assignor_name,
        members=[
            _described_member(state, member, image) for _, member in sorted(state.members.items())
        ],
    )


def _described_member(
    state: ConsumerGroupState, member: ConsumerGroupMember, image: MetadataImage
) -> DescribedMember:
    subscription = member.subscription
    return DescribedMember(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.progress.member_epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topic_names),
        subscribed_topic_regex=subscription.regex or "",
        assignment=_described_assignment(member.progress.assigned, image),
        target_assignment=_described_assignment(state.target_of(member.member_id), image),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _described_assignment(assignment: Assignment, image: MetadataImage) -> DescribedAssignment:
    # A topic id without a name belongs to a deleted topic, which is left out.
    return DescribedAssignment(
        [
            TopicPartitions(topic_id, image.names[topic_id], partitions)
            for topic_id, partitions in listed(assignment)
            if topic_id in image.names
        ]
    )

"""One member of a KIP-848 group and the record values of its subscription and assignment."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from ottla.coordinator.group.common.record_values import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
)
from ottla.coordinator.group.consumer.assignment import (
    NOTHING,
    Assignment,
    assignment_of,
    listed,
)
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

JOINING = 0
LEAVING = -1
LEAVING_FOR_A_WHILE = -2
"""The member epochs with a meaning: -2 is a static member that will be back (KIP-848)."""


class MemberState(IntEnum):
    """How far a member has reached its target; the numbers are written to the log.

    | state | meaning | ends when |
    |---|---|---|
    | STABLE | the member owns what its epoch assigns | there is a newer target |
    | UNREVOKED_PARTITIONS | it has to revoke some | it reports what it owns without them |
    | UNRELEASED_PARTITIONS | others still own part of its target | some of that is released |

    A member that has to revoke keeps its epoch; in the other states it has the target's."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ClassicMetadata(NamedTuple):
    """Session timeout and protocols of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberSubscription(NamedTuple):
    """What a member announced; ``topic_names`` is sorted."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None


class MemberAssignment(NamedTuple):
    """A member's current assignment; it owns ``assigned`` and ``revoking`` exclusively."""

    member_epoch: int = JOINING
    previous_member_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    revoking: Assignment = NOTHING


NEWCOMER = MemberAssignment()


UNKNOWN = MemberSubscription()


@dataclass(slots=True)
class ConsumerGroupMember:
    """A member; records replace its subscription and its progress as a whole.

    The session is only in memory: each heartbeat moves ``session_deadline_ms``, but its timer is
    set again only when it has fired (a heap entry per heartbeat would be expensive)."""

    member_id: str
    subscription: MemberSubscription = UNKNOWN
    progress: MemberAssignment = NEWCOMER
    session_deadline_ms: float = 0.0
    session_timeout_ms: int = 0
    # The owned partitions last reported; a second copy while the report may be incomplete.
    reported: Assignment = field(default_factory=dict)
    unconfirmed: Assignment | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.subscription.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has nothing left to do for that assignment epoch."""
        progress = self.progress
        return progress.state is MemberState.STABLE and progress.member_epoch == assignment_epoch


def subscription_value(subscription: MemberSubscription) -> ConsumerGroupMemberMetadataValue:
    """The record value of a subscription."""
    classic = subscription.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topic_names),
        subscribed_topic_regex=subscription.regex,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            classic.session_timeout_ms,
            [ClassicProtocol(name, metadata) for name, metadata in classic.protocols],
        ),
    )


def subscription_of(value: ConsumerGroupMemberMetadataValue) -> MemberSubscription:
    """The subscription of a record value."""
    classic = value.classic_member_metadata
    return MemberSubscription(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=tuple(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
        ),
    )


def progress_value(progress: MemberAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    """The record value of a current assignment."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=progress.member_epoch,
        previous_member_epoch=progress.previous_member_epoch,
        state=progress.state,
        assigned_partitions=[CurrentTopicPartitions(*entry) for entry in listed(progress.assigned)],
        partitions_pending_revocation=[
            CurrentTopicPartitions(*entry) for entry in listed(progress.revoking)
        ],
    )


def progress_of(value: ConsumerGroupCurrentMemberAssignmentValue) -> MemberAssignment:
    """The current assignment of a record value.

    An unknown state, from a newer broker, counts as the strictest one: the member has to report
    what it owns first."""
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNREVOKED_PARTITIONS
    return MemberAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        state,
        assignment_of(value.assigned_partitions),
        assignment_of(value.partitions_pending_revocation),
    )

"""One member of a KIP-848 group: what it wants, what it has, and how both are written down."""

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
    """How far a member is on its way to its target; the numbers are written to the log.

    | state | it means | it goes on when |
    |---|---|---|
    | STABLE | the member has what it shall have in its epoch | a newer target comes |
    | UNREVOKED_PARTITIONS | it was told to revoke some | it reports what it owns without them |
    | UNRELEASED_PARTITIONS | others still hold what it shall get | any of that is released |

    The first keeps its epoch until it has revoked; the others are at the target's epoch."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ClassicMetadata(NamedTuple):
    """How a member that speaks the classic protocol joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberSubscription(NamedTuple):
    """What a member told of itself; ``topic_names`` is sorted."""

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
    """What a member has. A partition in ``assigned`` or ``revoking`` belongs to nobody else."""

    member_epoch: int = JOINING
    previous_member_epoch: int = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    revoking: Assignment = NOTHING


NEWCOMER = MemberAssignment()


UNKNOWN = MemberSubscription()


@dataclass(slots=True)
class ConsumerGroupMember:
    """Both halves are replaced as a whole, by the records that say so.

    The session is kept in memory alone: ``session_deadline_ms`` moves with every sign of life,
    the timer behind it only when it has fired (a heap entry per heartbeat would be dear)."""

    member_id: str
    subscription: MemberSubscription = UNKNOWN
    progress: MemberAssignment = NEWCOMER
    session_deadline_ms: float = 0.0
    session_timeout_ms: int = 0
    # What the member last said it owns, and that once more while it may be short of the truth.
    reported: Assignment = field(default_factory=dict)
    unconfirmed: Assignment | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.subscription.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether nothing is left to do for the member until there is another target."""
        progress = self.progress
        return progress.state is MemberState.STABLE and progress.member_epoch == assignment_epoch


def subscription_value(subscription: MemberSubscription) -> ConsumerGroupMemberMetadataValue:
    """The record of it."""
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
    """What the record says."""
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
    """The record of it."""
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
    """What the record says.

    A state that a newer broker invented is taken for the strictest one: the member has to report
    what it owns before it gets on."""
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

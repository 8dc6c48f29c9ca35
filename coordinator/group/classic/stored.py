"""Converts a member to its entry in the group's record in the offsets topic, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.member import ClassicGroupMember
from ottla.coordinator.group.common.record_values import MemberMetadata

if TYPE_CHECKING:
    from ottla.coordinator.group.common.record_values import GroupMetadataValue


def stored_member(
    member: ClassicGroupMember, protocol_name: str | None, assignment: bytes
) -> MemberMetadata:
    """The entry of a member; as in Kafka it has only the metadata for the chosen protocol."""
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignment,
    )


def members_of(value: GroupMetadataValue) -> list[ClassicGroupMember]:
    """The members; an old record without rebalance timeout uses the session timeout."""
    return [
        ClassicGroupMember(
            member_id=one.member_id,
            instance_id=one.group_instance_id,
            client_id=one.client_id,
            client_host=one.client_host,
            session_timeout_ms=one.session_timeout,
            rebalance_timeout_ms=(
                one.session_timeout if one.rebalance_timeout < 0 else one.rebalance_timeout
            ),
            protocols=((value.protocol or "", bytes(one.subscription)),),
            assignment=bytes(one.assignment),
        )
        for one in value.members
    ]

"""Holds a classic group's state and current generation, and converts them to and from records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.member import topics_of
from ottla.coordinator.group.classic.states import ClassicGroupState, may_follow
from ottla.coordinator.group.classic.stored import stored_member
from ottla.coordinator.group.common.record_values import GroupMetadataValue
from ottla.coordinator.group.common.records import group_record
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.effects import LogRecord
    from ottla.coordinator.group.classic.member import ClassicGroupMember
    from ottla.coordinator.group.classic.roster import Roster
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.common.timeline import GroupEventKind
    from ottla.coordinator.outbox import Continuation

INT32_MAX = 2**31 - 1
IN_A_GENERATION = (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)


class Generation:
    """State and generation of one group.

    ``topics`` is what its members subscribe to; None if only the members can decode their metadata.
    ``has_record``: the log has a record of the group, to be deleted with the group."""

    def __init__(self, group_id: str, scope: GroupScope, roster: Roster) -> None:
        self.group_id = group_id
        self.roster = roster
        self.state = ClassicGroupState.EMPTY
        self.state_since_wall_ms = scope.moment.wall_ms
        self.generation_id = 0
        self.protocol_name: str | None = None
        self.topics: frozenset[str] | None = None
        self.has_record = False
        self._scope = scope

    def move_to(self, state: ClassicGroupState) -> None:
        """Enter another state; asserts that the transition is allowed."""
        assert may_follow(self.state, state), f"{self.state.value} before {state.value}"
        assert state not in IN_A_GENERATION or self.roster.leader_id in self.roster.members
        assert state is not ClassicGroupState.EMPTY or not self.roster.members
        self.state = state
        self.state_since_wall_ms = self._scope.moment.wall_ms

    def next_generation(self) -> None:
        """Start a generation of the current members; an empty group has no protocol."""
        self.generation_id = 1 if self.generation_id == INT32_MAX else self.generation_id + 1
        self.protocol_name = self.roster.select_protocol() if self.roster.members else None
        self.topics = self._subscribed_topics()

    def _subscribed_topics(self) -> frozenset[str] | None:
        protocol_type = self.roster.protocol_type
        if protocol_type != PROTOCOL_TYPE:
            return None
        found: set[str] = set()
        for member in self.roster.members.values():
            topics = topics_of(protocol_type, member.metadata(self.protocol_name))
            if topics is None:
                return None
            found |= topics
        return frozenset(found)

    # Responses.

    def current_answer(
        self, member: ClassicGroupMember, *, with_members: bool = False
    ) -> JoinGroupResponse:
        """The member's JoinGroup response; only the leader needs the list of members."""
        assert self.state in IN_A_GENERATION
        assert self.roster.members.get(member.member_id) is member
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.roster.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader_id or "",
            member_id=member.member_id,
            members=self.listed_members() if with_members else [],
        )

    def listed_members(self) -> list[JoinGroupResponseMember]:
        """The members with their metadata for the leader's assignment, static members first.

        Kafka promises no order; kafka-python's range strategy loses members if static and dynamic
        members alternate."""
        name = self.protocol_name
        members = sorted(self.roster.members.values(), key=lambda one: not one.is_static)
        return [
            JoinGroupResponseMember(one.member_id, one.instance_id, one.metadata(name))
            for one in members
        ]

    def note(self, kind: GroupEventKind, member_id: str, detail: str) -> None:
        """Add an event to the group's timeline."""
        timeline, moment = self._scope.timeline, self._scope.moment
        timeline.note(moment, self.group_id, kind, member_id, self.generation_id, detail)

    # The log.

    def restore(self, value: GroupMetadataValue) -> None:
        """Take over the state of a record; its members are in the roster already."""
        self.has_record = True
        self.generation_id = value.generation
        self.protocol_name = value.protocol
        self.state_since_wall_ms = value.current_state_timestamp
        self.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
        self.topics = self._subscribed_topics()

    def record(self, assignments: Mapping[str, bytes]) -> LogRecord:
        """The group's record, with these assignments by member id."""
        name, roster = self.protocol_name, self.roster
        assert not roster.members or roster.leader_id in roster.members
        value = GroupMetadataValue(
            protocol_type=roster.protocol_type or "",
            generation=self.generation_id,
            protocol=name,
            leader=roster.leader_id,
            current_state_timestamp=self._scope.moment.wall_ms,
            members=[
                stored_member(one, name, assignments.get(one.member_id, b""))
                for one in roster.members.values()
            ],
        )
        return group_record(self.group_id, value)

    def append(self, record: LogRecord, continuation: Continuation) -> None:
        """Append the group's record to the log."""
        self.has_record = True
        self._scope.outbox.append([record], continuation)

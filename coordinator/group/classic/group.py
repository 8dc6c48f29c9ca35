"""One classic group: creates its parts, answers heartbeats and checks offset commits.

The states are in states.py, rebalances in rebalance.py, requests in joining.py, syncing.py and
leaving.py. Heartbeat, a thousand times as frequent as the other requests, is handled here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.generation import Generation
from ottla.coordinator.group.classic.joining import Joining
from ottla.coordinator.group.classic.leaving import MemberDeparture
from ottla.coordinator.group.classic.rebalance import Rebalance
from ottla.coordinator.group.classic.roster import Roster
from ottla.coordinator.group.classic.sessions import JOIN, SYNC, ClassicTimer, Sessions
from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.classic.stored import members_of
from ottla.coordinator.group.classic.syncing import Syncing
from ottla.coordinator.group.common.records import RecordKind, group_tombstone
from ottla.coordinator.group.common.timeline import GroupEventKind, counted
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ottla.coordinator.effects import LogRecord, Moment
    from ottla.coordinator.group.common.record_values import GroupMetadataValue
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.protocol.messages.heartbeat import HeartbeatRequest

GROUP_TYPE = "classic"


class ClassicGroup:
    """A classic group; in the shard's table from its first JoinGroup or record until deletion."""

    group_type = GROUP_TYPE

    def __init__(self, group_id: str, scope: GroupScope) -> None:
        self.group_id = group_id
        self.roster = Roster()
        self._scope = scope
        self._sessions = Sessions(group_id, scope)
        self.generation = Generation(group_id, scope, self.roster)
        self.rebalance = Rebalance(scope, self.generation, self._sessions)
        self.joining = Joining(scope, self.generation, self.rebalance, self._sessions)
        self.syncing = Syncing(scope, self.generation, self.rebalance, self._sessions)
        self.leaving = MemberDeparture(self.generation, self.rebalance, self._sessions)

    @property
    def state(self) -> ClassicGroupState:
        return self.generation.state

    @property
    def state_name(self) -> str:
        return self.generation.state.value

    @property
    def protocol_type(self) -> str | None:
        return self.roster.protocol_type

    @property
    def is_vacant(self) -> bool:
        """Whether the group has neither members, nor pending members, nor a record."""
        is_empty = self.state is ClassicGroupState.EMPTY and not self.roster.pending
        return is_empty and not self.generation.has_record

    # Members.

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Extend the member's session; the error code tells whether it must rejoin. HOT."""
        generation = self.generation
        member = self.roster.members.get(request.member_id)
        if (
            member is None
            or request.group_instance_id is not None
            or request.generation_id != generation.generation_id
        ):
            error = self._check(request)
            if error is not ErrorCode.NONE:
                text = f"Heartbeat of generation {request.generation_id}: {error.name}"
                generation.note(GroupEventKind.REFUSED, request.member_id, text)
                return error
            assert member is not None
        self._sessions.extend(member)
        if generation.state is ClassicGroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _check(self, request: HeartbeatRequest) -> ErrorCode:
        error = self.roster.check(request.member_id, request.group_instance_id)
        is_of_now = request.generation_id == self.generation.generation_id
        if error is ErrorCode.NONE and not is_of_now:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    # Checks for committed offsets.

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool
    ) -> ErrorCode:
        """A consumer that assigns partitions itself may commit while the group is empty (G-02).

        Producers before KIP-447 send no member id, and cannot know that the group rebalances."""
        state = self.state
        if epoch < 0 and state is ClassicGroupState.EMPTY:
            return ErrorCode.NONE
        if epoch >= 0 or member_id or instance_id is not None:
            error = self.roster.check(member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
            if epoch != self.generation.generation_id:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        else:
            return ErrorCode.NONE
        if state is ClassicGroupState.COMPLETING_REBALANCE and not is_transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        assert member_id in self.roster.members, "a client that is no member would commit (G-02)"
        self._sessions.extend(self.roster.members[member_id])
        return ErrorCode.NONE

    def needs_member_epochs(self, member_id: str) -> bool:
        del member_id
        return False

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """NONE: members of classic groups may always fetch offsets."""
        del member_id, epoch
        return ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        """Metadata that only the clients can decode counts as a subscription to every topic."""
        if self.protocol_type != PROTOCOL_TYPE or not self.roster.members:
            return False
        topics = self.generation.topics
        return topics is None or topic in topics

    def check_delete(self) -> ErrorCode:
        return (
            ErrorCode.NONE if self.state is ClassicGroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP
        )

    def check_offset_delete(self) -> ErrorCode:
        if self.state is ClassicGroupState.EMPTY or self.protocol_type == PROTOCOL_TYPE:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    @property
    def has_settled_subscriptions(self) -> bool:
        return self.state is ClassicGroupState.STABLE and self.generation.topics is not None

    @property
    def empty_since_wall_ms(self) -> int | None:
        if self.state is not ClassicGroupState.EMPTY or self.roster.pending:
            return None
        if self.protocol_type is None:
            return 0
        return max(self.generation.state_since_wall_ms, 0)

    def tombstones(self) -> list[LogRecord]:
        if not self.generation.has_record:
            return []
        return [group_tombstone(RecordKind.GROUP_METADATA, self.group_id)]

    # The shard.

    def restore(self, value: GroupMetadataValue) -> None:
        """Take over the state of a record; only for a new group."""
        assert not self.generation.has_record
        roster = self.roster
        roster.protocol_type = value.protocol_type or None
        for member in members_of(value):
            is_held = roster.static_id(member.instance_id) is not None
            # Another program may have written a member or an instance id twice.
            if member.member_id not in roster.members and not is_held:
                roster.add(member, value.protocol_type)
        if value.leader in roster.members:
            roster.leader_id = value.leader
        self.generation.restore(value)

    def on_loaded(self, moment: Moment) -> None:
        members = self.roster.members
        assert not self.roster.pending, "ids that are given out are in no record"
        for member in members.values():
            self._sessions.begin(member)
        if members:
            why = f"{counted(len(members))}, every session starts again"
            self.generation.note(GroupEventKind.LOADED, "", why)
        if len(members) > self._scope.settings.max_size:
            self.rebalance.prepare("the group has more members than group.max.size")

    def on_unload(self, error: ErrorCode) -> None:
        self.rebalance.die(error)

    def on_deadline(self, rest: Hashable) -> None:
        if not isinstance(rest, ClassicTimer):
            # The timer of a group of the other kind that had this id before.
            return
        if rest.kind == JOIN:
            self.rebalance.on_join_timer()
        elif rest.kind == SYNC:
            self.rebalance.on_sync_timer()
        elif rest.member_id in self.roster.pending:
            del self.roster.pending[rest.member_id]
            why = "it got its id and did not send JoinGroup again in time"
            self.generation.note(GroupEventKind.REMOVED, rest.member_id, why)
            self.rebalance.maybe_complete()
        else:
            self._on_session_timer(rest.member_id)

    def _on_session_timer(self, member_id: str) -> None:
        member = self.roster.members[member_id]
        if not self._sessions.is_over(member):
            return
        why = f"its session ended, after {member.session_timeout_ms} ms without a heartbeat"
        if member.is_new:
            why = "its JoinGroup waited too long; whether it is still there is unknown"
        self.rebalance.remove(member, GroupEventKind.REMOVED, why)
        self.rebalance.go_on(f"{member_id} was removed")

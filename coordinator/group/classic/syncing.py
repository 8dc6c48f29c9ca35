"""SyncGroup: the leader sends the generation's assignment, and each member gets its part.

The call that receives the assignment appends the group's record; members get their parts when it
is committed. If the write fails, they get the error and a rebalance begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.failures import answer_to
from ottla.coordinator.group.classic.generation import IN_A_GENERATION
from ottla.coordinator.group.classic.replies import refused_sync
from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.outbox import Continuation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.effects import Ticket
    from ottla.coordinator.group.classic.generation import Generation
    from ottla.coordinator.group.classic.member import ClassicGroupMember
    from ottla.coordinator.group.classic.rebalance import Rebalance
    from ottla.coordinator.group.classic.sessions import Sessions
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.protocol.messages.sync_group import SyncGroupRequest

NO_GENERATION = -1


class Syncing:
    """Handles SyncGroup for one group."""

    def __init__(
        self, scope: GroupScope, generation: Generation, rebalance: Rebalance, sessions: Sessions
    ) -> None:
        self._scope = scope
        self._rebalance = rebalance
        self._generation = generation
        self._roster = rebalance.roster
        self._sessions = sessions
        # The generation whose assignment is being written.
        self._stored_generation = NO_GENERATION

    def handle(self, request: SyncGroupRequest, ticket: Ticket) -> None:
        """Answer the request, or park it until the assignment is committed."""
        error = self._check(request)
        if error is not ErrorCode.NONE:
            self._generation.note(
                GroupEventKind.REFUSED, request.member_id, f"SyncGroup: {error.name}"
            )
            self._scope.outbox.answer(ticket, refused_sync(error))
            return
        assert self._generation.state in IN_A_GENERATION
        member = self._roster.members[request.member_id]
        self._rebalance.on_synced(member.member_id)
        self._sessions.extend(member)
        if self._generation.state is ClassicGroupState.STABLE:
            assert member.parked_sync is None, "it was answered when the group became stable"
            self._answer(member, ticket)
            return
        # A client that has given up its first request reads only the second response.
        self._rebalance.refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.parked_sync = ticket
        is_leader = member.member_id == self._roster.leader_id
        # A repeated request of the leader adds nothing: the first one is being written.
        if is_leader and self._stored_generation != self._generation.generation_id:
            self._store(member, request)

    def _check(self, request: SyncGroupRequest) -> ErrorCode:
        generation, roster = self._generation, self._roster
        if generation.state is ClassicGroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = roster.check(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation_id != generation.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != roster.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        name = generation.protocol_name
        # A new group has no protocol yet; the check of its state below asks the member to join.
        if name is not None and request.protocol_name is not None and request.protocol_name != name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if generation.state is ClassicGroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _answer(self, member: ClassicGroupMember, ticket: Ticket) -> None:
        response = SyncGroupResponse(
            protocol_type=self._roster.protocol_type,
            protocol_name=self._generation.protocol_name,
            assignment=member.assignment,
        )
        self._scope.outbox.answer(ticket, response)

    # The leader's assignment.

    def _store(self, leader: ClassicGroupMember, request: SyncGroupRequest) -> None:
        assignments = {one.member_id: bytes(one.assignment) for one in request.assignments}
        record = self._generation.record(assignments)
        size_bytes = len(record.key) + len(record.value or b"")
        limit_bytes = self._scope.settings.max_record_bytes
        if size_bytes > limit_bytes:
            # Refused before anything changes, so that the leader can send a smaller one (G-10).
            why = f"the assignment takes {size_bytes} bytes, and {limit_bytes} can be stored"
            self._generation.note(GroupEventKind.REFUSED, leader.member_id, why)
            self._rebalance.refuse_sync(leader, ErrorCode.MESSAGE_TOO_LARGE)
            self._rebalance.prepare(why)
            return
        generation_id = self._generation.generation_id
        assert self._stored_generation != generation_id, "a generation has one assignment"
        self._stored_generation = generation_id
        self._generation.append(
            record,
            Continuation(
                on_committed=lambda: self._on_stored(generation_id, assignments),
                on_failed=lambda error: self._on_failed(generation_id, error),
                on_overdue=lambda: self._on_overdue(generation_id),
            ),
        )

    def _is_current(self, generation_id: int) -> bool:
        """Whether that generation still waits for its assignment."""
        is_awaited = self._generation.state is ClassicGroupState.COMPLETING_REBALANCE
        return is_awaited and generation_id == self._generation.generation_id

    def _end(self, generation_id: int) -> bool:
        """End the write; return whether its generation still waits for the assignment."""
        if self._stored_generation == generation_id:
            self._stored_generation = NO_GENERATION
        return self._is_current(generation_id)

    def _on_stored(self, generation_id: int, assignments: Mapping[str, bytes]) -> None:
        if not self._end(generation_id):
            return
        self._rebalance.become_stable(assignments)
        for member in self._roster.members.values():
            ticket, member.parked_sync = member.parked_sync, None
            if ticket is not None:
                self._sessions.extend(member)
                self._answer(member, ticket)

    def _on_failed(self, generation_id: int, error: ErrorCode) -> None:
        self._generation.note(GroupEventKind.WRITE_FAILED, "", error.name)
        if self._end(generation_id):
            self._rebalance.refuse_syncs(answer_to(error))
            self._rebalance.prepare(f"the assignment could not be stored: {error.name}")

    def _on_overdue(self, generation_id: int) -> None:
        # The members retry in this generation and get the assignment once it is committed.
        if self._is_current(generation_id):
            self._rebalance.refuse_syncs(ErrorCode.COORDINATOR_NOT_AVAILABLE)

"""LeaveGroup: removes members at their own or an administrator's request (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.group.classic.generation import Generation
    from ottla.coordinator.group.classic.rebalance import Rebalance
    from ottla.coordinator.group.classic.sessions import Sessions

MANY_MEMBERS_VERSION = 3


def leave_response(
    request: LeaveGroupRequest, api_version: int, leave: Callable[[MemberIdentity], ErrorCode]
) -> LeaveGroupResponse:
    """Call ``leave`` for each member in the request; before version 3 that is one member."""
    if api_version < MANY_MEMBERS_VERSION:
        error = leave(MemberIdentity(member_id=request.member_id))
        return LeaveGroupResponse(error_code=error)
    return LeaveGroupResponse(
        members=[
            MemberResponse(one.member_id, one.group_instance_id, leave(one))
            for one in request.members
        ]
    )


class MemberDeparture:
    """Handles LeaveGroup for one group."""

    def __init__(self, generation: Generation, rebalance: Rebalance, sessions: Sessions) -> None:
        self._rebalance = rebalance
        self._generation = generation
        self._roster = rebalance.roster
        self._sessions = sessions

    def handle(self, request: LeaveGroupRequest, api_version: int) -> LeaveGroupResponse:
        """Remove the members; one rebalance follows for all of them."""
        members_before = len(self._roster.members)
        response = leave_response(request, api_version, self._leave)
        assert len(self._roster.members) <= members_before, "a request to leave adds no member"
        if len(self._roster.members) < members_before:
            self._rebalance.go_on("members left")
        elif self._generation.state is ClassicGroupState.PREPARING_REBALANCE:
            # The rebalance may have waited only for the pending id.
            self._rebalance.maybe_complete()
        return response

    def _leave(self, identity: MemberIdentity) -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        why = identity.reason or "it asked to"
        if not member_id:
            # An administrator removes a static member by its instance id.
            member_id = self._roster.static_id(instance_id) or ""
        elif member_id in self._roster.pending:
            del self._roster.pending[member_id]
            self._sessions.end(member_id)
            self._generation.note(GroupEventKind.LEFT, member_id, why)
            return ErrorCode.NONE
        error = self._roster.check(member_id, instance_id)
        if error is ErrorCode.NONE:
            self._rebalance.remove(self._roster.members[member_id], GroupEventKind.LEFT, why)
            assert member_id not in self._roster.members, "the group would wait for it"
        return error

"""Dispatches requests to the classic groups of a shard and validates group-independent fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.leaving import leave_response
from ottla.coordinator.group.classic.replies import refused_join, refused_sync
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin, Ticket
    from ottla.coordinator.group.common.membership import Groups
    from ottla.coordinator.group.common.record_values import GroupMetadataValue
    from ottla.coordinator.group.common.scope import GroupScope

MembersRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
# From version 6 on a request allows longer names than records and older responses (G-10).
NAME_BYTES_MAX = 1_024
GROUP_ID_BYTES_MAX = 32_767


class ClassicGroups:
    """The classic groups of one shard; ``groups`` also holds consumer groups, which it ignores."""

    def __init__(self, scope: GroupScope, groups: Groups) -> None:
        self._scope = scope
        self._groups = groups

    def find(self, group_id: str) -> ClassicGroup | None:
        """The group; None if there is none or it is not a classic group."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def ensure(self, group_id: str) -> ClassicGroup:
        """The group, created if there is none."""
        group = self.find(group_id)
        if group is None:
            assert group_id not in self._groups
            group = self._groups[group_id] = ClassicGroup(group_id, self._scope)
        return group

    def handle(self, request: MembersRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        """Handle a request of a member or of a client that wants to join."""
        match request:
            case HeartbeatRequest():
                response = HeartbeatResponse(error_code=self._heartbeat(request))
                self._scope.outbox.answer(ticket, response)
            case JoinGroupRequest():
                self._join(request, caller, ticket)
            case SyncGroupRequest():
                self._sync(request, ticket)
            case LeaveGroupRequest():
                self._leave(request, caller, ticket)

    def replay(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """Apply a group's record; None deletes the group."""
        if value is not None:
            # The record replaces any earlier state of that group id, of either kind.
            group = self._groups[group_id] = ClassicGroup(group_id, self._scope)
            group.restore(value)
        elif self.find(group_id) is not None:
            del self._groups[group_id]

    def drop_if_vacant(self, group_id: str) -> None:
        """Delete a group that was created for a client that never joined."""
        group = self.find(group_id)
        if group is not None and group.is_vacant:
            assert not group.roster.members
            del self._groups[group_id]

    def _heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        group = self.find(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
        return group.heartbeat(request)

    def _join(self, request: JoinGroupRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        error = self.check_join(request)
        group = self.find(request.group_id)
        if error is ErrorCode.NONE and group is None and request.member_id:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE:
            self._scope.outbox.answer(ticket, refused_join(error, request.member_id))
            return
        self.ensure(request.group_id).joining.handle(request, caller, ticket)
        self.drop_if_vacant(request.group_id)

    def check_join(self, request: JoinGroupRequest) -> ErrorCode:
        """Check the fields of a JoinGroup that do not depend on the group."""
        if not request.group_id or len(request.group_id.encode()) > GROUP_ID_BYTES_MAX:
            return ErrorCode.INVALID_GROUP_ID
        settings = self._scope.settings
        shortest, longest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        names = [request.group_instance_id or "", request.protocol_type]
        names += [protocol.name for protocol in request.protocols]
        if any(len(name.encode()) > NAME_BYTES_MAX for name in names):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _sync(self, request: SyncGroupRequest, ticket: Ticket) -> None:
        group = self.find(request.group_id)
        if group is not None:
            group.syncing.handle(request, ticket)
            return
        error = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
        self._scope.outbox.answer(ticket, refused_sync(error))

    def _leave(self, request: LeaveGroupRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        group = self.find(request.group_id)
        if group is not None:
            response = group.leaving.handle(request, caller.api_version)
            self.drop_if_vacant(request.group_id)
        elif not request.group_id:
            response = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        else:
            response = leave_response(
                request, caller.api_version, lambda _: ErrorCode.UNKNOWN_MEMBER_ID
            )
        self._scope.outbox.answer(ticket, response)

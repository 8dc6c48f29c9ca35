"""Members of the classic protocol in a KIP-848 group, while an application migrates.

They use JoinGroup, SyncGroup and Heartbeat as before; the broker assigns. All are followers, the
generation is their member epoch, and a heartbeat asks them to rejoin when their next step is due.
They report what they own in their subscription.

| request | refused with |
|---|---|
| any | UNKNOWN_MEMBER_ID, also for members of the other protocol; FENCED_INSTANCE_ID |
| JoinGroup | INCONSISTENT_GROUP_PROTOCOL, MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED |
| SyncGroup | ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS |
| Heartbeat | ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.joining import CLIENT_ID_CHARACTERS_MAX
from ottla.coordinator.group.classic.leaving import leave_response
from ottla.coordinator.group.classic.member import protocols_of, rebalance_timeout_ms
from ottla.coordinator.group.classic.replies import refused_join, refused_sync
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.group.consumer.embedded import (
    EmbeddedSubscription,
    assignment_bytes,
    wish_of,
)
from ottla.coordinator.group.consumer.member import (
    ClassicMetadata,
    ConsumerGroupMember,
    MemberState,
    MemberSubscription,
)
from ottla.coordinator.group.consumer.reconcile import Report, can_be_completed
from ottla.coordinator.group.consumer.timers import JOIN, SYNC
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, RemoteProtocolError
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin
    from ottla.coordinator.group.consumer.changes import Changes
    from ottla.coordinator.group.consumer.rebalance import Rebalancing
    from ottla.protocol.messages.heartbeat import HeartbeatRequest
    from ottla.protocol.messages.join_group import JoinGroupRequest
    from ottla.protocol.messages.leave_group import (
        LeaveGroupRequest,
        LeaveGroupResponse,
        MemberIdentity,
    )
    from ottla.protocol.messages.sync_group import SyncGroupRequest

# From this version on a dynamic member sends JoinGroup twice: first to get its id (KIP-394).
ID_REQUIRED_VERSION = 4


class ClassicMembers:
    """Handles requests of the classic members of one group."""

    def __init__(self, rebalancing: Rebalancing) -> None:
        self._rebalancing = rebalancing
        self._state = rebalancing.state
        self._timers = rebalancing.timers

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """REBALANCE_IN_PROGRESS asks the member to rejoin: there is a newer target, it has to
        revoke partitions, or those it waits for are free."""
        member = self._find(request.member_id, request.group_instance_id)
        if isinstance(member, ErrorCode):
            return member
        if request.generation_id != member.progress.member_epoch:
            return ErrorCode.ILLEGAL_GENERATION
        self._timers.extend_session(member)
        if (
            not self._is_behind(member)
            and member.progress.state is not MemberState.UNREVOKED_PARTITIONS
            and not can_be_completed(self._state, member)
        ):
            return ErrorCode.NONE
        self._timers.start_once(JOIN, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def join(
        self, request: JoinGroupRequest, caller: RequestOrigin, changes: Changes
    ) -> JoinGroupResponse:
        """Move the member from what it owns towards its target."""
        context = self._rebalancing.context
        try:
            wish = self._wish(request)
        except RemoteProtocolError:
            return self._refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        error = self._join_fault(request)
        if wish is None or error is not ErrorCode.NONE:
            return self._refuse(request, error or ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        prefix = caller.client_id[:CLIENT_ID_CHARACTERS_MAX]
        member_id = request.member_id or f"{prefix}-{context.scope.new_id()}"
        is_dynamic = request.group_instance_id is None
        if is_dynamic and not request.member_id and caller.api_version >= ID_REQUIRED_VERSION:
            return refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        is_newcomer = self._let_in(request, member_id, changes)
        known = self._state.members.get(member_id, ConsumerGroupMember(member_id)).subscription
        subscription = _subscription(request, caller, wish, known)
        if subscription != known:
            changes.put_subscription(member_id, subscription)
        is_bump_due = is_newcomer or subscription.topic_names != known.topic_names
        self._rebalancing.refresh(changes, caller, is_bump_due=is_bump_due)
        self._rebalancing.retarget(changes)
        member = self._state.members[member_id]
        assert member.uses_classic_protocol
        self._rebalancing.reconcile(changes, member, Report(wish.owned, is_final=True))
        self._timers.stop(JOIN, member_id)
        self._timers.begin_session(member)
        self._timers.start(SYNC, member)
        return JoinGroupResponse(
            generation_id=member.progress.member_epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            member_id=member_id,
        )

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """The member's assignment since it joined; it never has to assign itself."""
        member = self._find(request.member_id, request.group_instance_id)
        error = member if isinstance(member, ErrorCode) else self._sync_fault(request, member)
        if isinstance(member, ErrorCode) or error is not ErrorCode.NONE:
            self._rebalancing.note(
                GroupEventKind.REFUSED, request.member_id, f"SyncGroup: {error.name}"
            )
            return refused_sync(error)
        classic = member.subscription.classic
        assert classic is not None, "others are not found"
        self._timers.stop(SYNC, member.member_id)
        self._timers.extend_session(member)
        image = self._rebalancing.context.image()
        return SyncGroupResponse(
            protocol_type=PROTOCOL_TYPE,
            protocol_name=classic.protocols[0][0],
            assignment=assignment_bytes(member.progress.assigned, classic, image),
        )

    def leave(
        self, request: LeaveGroupRequest, caller: RequestOrigin, changes: Changes
    ) -> LeaveGroupResponse:
        """Remove all members that the request names, in one rebalance."""
        gone: list[str] = []

        def leave(identity: MemberIdentity) -> ErrorCode:
            member_id = identity.member_id
            if not member_id and identity.group_instance_id is not None:
                # An administrator knows only the instance id.
                member_id = self._state.static_members.get(identity.group_instance_id, "")
            member = self._find(member_id, identity.group_instance_id)
            if isinstance(member, ErrorCode):
                return member
            if member.member_id not in gone:
                gone.append(member.member_id)
                reason = identity.reason or "it asked to"
                self._rebalancing.note(GroupEventKind.LEFT, member.member_id, reason)
            return ErrorCode.NONE

        response = leave_response(request, caller.api_version, leave)
        if gone:
            self._rebalancing.drop(changes, gone)
            assert not self._state.members.keys() & gone, "they would keep their partitions"
        return response

    def _find(self, member_id: str, instance_id: str | None) -> ConsumerGroupMember | ErrorCode:
        if instance_id is not None:
            holder = self._state.static_members.get(instance_id)
            if holder is not None and holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            member = None if holder is None else self._state.members[holder]
        else:
            member = self._state.members.get(member_id)
        if member is None or not member.uses_classic_protocol:
            return ErrorCode.UNKNOWN_MEMBER_ID
        assert member.member_id == member_id, "another member would answer for it (G-07)"
        return member

    def _is_behind(self, member: ConsumerGroupMember) -> bool:
        return member.progress.member_epoch < self._state.group_epoch

    def _wish(self, request: JoinGroupRequest) -> EmbeddedSubscription | None:
        """None if the member shares no protocol with the other classic members."""
        if request.protocol_type != PROTOCOL_TYPE or not request.protocols:
            return None
        shared = {protocol.name for protocol in request.protocols}
        for member in self._state.members.values():
            classic = member.subscription.classic
            if classic is not None and member.member_id != request.member_id:
                shared &= {name for name, _ in classic.protocols}
        if not shared:
            return None
        return wish_of(bytes(request.protocols[0].metadata), self._rebalancing.context.image())

    def _join_fault(self, request: JoinGroupRequest) -> ErrorCode:
        state, settings = self._state, self._rebalancing.context.scope.settings
        holder = state.static_members.get(request.group_instance_id or "")
        if request.group_instance_id is not None and request.member_id:
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != request.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        is_newcomer = holder is None and request.member_id not in state.members
        if is_newcomer and len(state.members) >= settings.consumer_max_size:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        # Half of a batch, because the record repeats the topics, and its consequences take space
        # too. What cannot be written makes the shard reload, at every try (hazard G-10).
        if 2 * _protocol_bytes(request) > settings.max_record_bytes:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _let_in(self, request: JoinGroupRequest, member_id: str, changes: Changes) -> bool:
        """Prepare the state for the member; return whether it is a new one."""
        holder = self._state.static_members.get(request.group_instance_id or "")
        if holder is not None and holder != member_id:
            # The newest process wins, as always with classic members (hazard G-07).
            self._rebalancing.note(GroupEventKind.REPLACED, member_id, f"instead of {holder}")
            self._timers.stop_all(holder)
            changes.replace_member(holder, member_id)
            return False
        if member_id in self._state.members:
            return False
        self._rebalancing.note(GroupEventKind.JOINED, member_id, "with the classic protocol")
        return True

    def _sync_fault(self, request: SyncGroupRequest, member: ConsumerGroupMember) -> ErrorCode:
        progress, classic = member.progress, member.subscription.classic
        if request.generation_id != progress.member_epoch:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, PROTOCOL_TYPE):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if classic is None or request.protocol_name not in (None, classic.protocols[0][0]):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        # A member that has to revoke has already joined for the newest target, and must get that
        # first.
        if self._is_behind(member) and progress.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.start_once(JOIN, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _refuse(self, request: JoinGroupRequest, error: ErrorCode) -> JoinGroupResponse:
        self._rebalancing.note(GroupEventKind.TURNED_AWAY, request.member_id, error.name)
        return refused_join(error, request.member_id)


def _protocol_bytes(request: JoinGroupRequest) -> int:
    return sum(len(one.name.encode()) + len(one.metadata) for one in request.protocols)


def _subscription(
    request: JoinGroupRequest,
    caller: RequestOrigin,
    wish: EmbeddedSubscription,
    known: MemberSubscription,
) -> MemberSubscription:
    return MemberSubscription(
        instance_id=request.group_instance_id or known.instance_id,
        rack_id=wish.rack_id or known.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topic_names=wish.topic_names,
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        classic=ClassicMetadata(request.session_timeout_ms, protocols_of(request)),
    )

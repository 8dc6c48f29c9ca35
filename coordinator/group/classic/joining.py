"""JoinGroup: admits new members and answers members that rejoin.

A dynamic member first receives its id (KIP-394), so that a lost response leaves a pending id and
not a ghost member. A static member replaces the holder of its instance id (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.member import (
    ClassicGroupMember,
    ParkedJoin,
    entry_bytes,
    protocols_of,
    rebalance_timeout_ms,
)
from ottla.coordinator.group.classic.replacing import Replacing
from ottla.coordinator.group.classic.replies import refused_join
from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin, Ticket
    from ottla.coordinator.group.classic.generation import Generation
    from ottla.coordinator.group.classic.rebalance import Rebalance
    from ottla.coordinator.group.classic.sessions import Sessions
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.protocol.messages.join_group import JoinGroupRequest

KNOWN_ID_REQUIRED_VERSION = 4
# Ids that were assigned and not used; a client that keeps asking must not fill the memory.
PENDING_MEMBERS_MAX = 10_000
# A client id may take 32 KiB; so may the member id, which starts with part of it.
CLIENT_ID_CHARACTERS_MAX = 255
_NEW_ID_BYTES_MAX = 4 * CLIENT_ID_CHARACTERS_MAX + 40


class Joining:
    """Handles JoinGroup for one group."""

    def __init__(
        self, scope: GroupScope, generation: Generation, rebalance: Rebalance, sessions: Sessions
    ) -> None:
        self._scope = scope
        self._rebalance = rebalance
        self._generation = generation
        self._roster = rebalance.roster
        self._sessions = sessions
        self._replacing = Replacing(scope, generation, rebalance, sessions)

    def handle(self, request: JoinGroupRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        """Join the group. The caller has checked group id, session timeout and name lengths."""
        roster = self._roster
        member_id = request.member_id
        if not self._has_place(request):
            self._turn_away(request, ticket)
            return
        names = [one.name for one in request.protocols]
        is_same_type = not roster.members or request.protocol_type == roster.protocol_type
        if not (names and request.protocol_type and is_same_type and roster.supports(names)):
            self._refuse(request, ticket, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif self._is_too_large(request, caller):
            self._refuse(request, ticket, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not member_id:
            self._join_without_id(request, caller, ticket)
        elif member_id in roster.pending and request.group_instance_id is None:
            self._add(request, caller, ticket, member_id)
        else:
            error = roster.check(member_id, request.group_instance_id)
            if error is not ErrorCode.NONE:
                self._refuse(request, ticket, error)
            else:
                member = roster.members[member_id]
                self._join_again(member, request, ParkedJoin(ticket, caller.api_version))

    # Limits.

    def _has_place(self, request: JoinGroupRequest) -> bool:
        """Whether group.max.size admits the member. Pending ids have a reserved place: otherwise
        several clients could be promised the last one (KAFKA-9844)."""
        roster, size_max = self._roster, self._scope.settings.max_size
        member_id = request.member_id or roster.static_id(request.group_instance_id)
        member = roster.members.get(member_id or "")
        promised = 0 if member_id in roster.pending or member is not None else len(roster.pending)
        if promised >= PENDING_MEMBERS_MAX:
            return False
        if self._generation.state is ClassicGroupState.PREPARING_REBALANCE:
            # Count the members that have joined: a group that is too large drops the last ones.
            is_there = member is not None and member.parked_join is not None
            return is_there or roster.parked_join_count + promised < size_max
        return member is not None or len(roster.members) + promised < size_max

    def _turn_away(self, request: JoinGroupRequest, ticket: Ticket) -> None:
        member = self._roster.members.get(request.member_id)
        code = ErrorCode.GROUP_MAX_SIZE_REACHED
        limit = f"{code.name}: {self._scope.settings.max_size}"
        self._generation.note(GroupEventKind.TURNED_AWAY, request.member_id, limit)
        self._scope.outbox.answer(ticket, refused_join(code))
        if member is not None:
            self._rebalance.remove(member, GroupEventKind.REMOVED, "the group is too large")
            self._rebalance.maybe_complete()

    def _is_too_large(self, request: JoinGroupRequest, caller: RequestOrigin) -> bool:
        """Whether the group's record would exceed its limit with that subscription (G-10)."""
        names = (request.member_id, request.group_instance_id or "", *caller[:2])
        needed = entry_bytes(names, protocols_of(request)) + _NEW_ID_BYTES_MAX
        member_id = request.member_id or self._roster.static_id(request.group_instance_id)
        member = self._roster.members.get(member_id or "")
        freed = 0 if member is None else member.size_bytes
        assert freed <= self._roster.size_bytes, "a member's size is part of the group's"
        total = self._roster.size_bytes - freed + needed
        return total > self._scope.settings.max_record_bytes

    def _refuse(self, request: JoinGroupRequest, ticket: Ticket, error: ErrorCode) -> None:
        self._generation.note(GroupEventKind.REFUSED, request.member_id, error.name)
        self._scope.outbox.answer(ticket, refused_join(error, request.member_id))

    # New members.

    def _join_without_id(
        self, request: JoinGroupRequest, caller: RequestOrigin, ticket: Ticket
    ) -> None:
        instance_id = request.group_instance_id
        prefix = caller.client_id if instance_id is None else instance_id
        new_id = f"{prefix[:CLIENT_ID_CHARACTERS_MAX]}-{self._scope.new_id()}"
        roster = self._roster
        assert new_id not in roster.members, "a client would take the place of a member"
        assert new_id not in roster.pending, "two clients would be one member"
        old_id = roster.static_id(instance_id)
        if old_id is not None:
            member = self._roster.members[old_id]
            self._replacing.replace(member, new_id, request, caller, ticket)
        elif instance_id is None and caller.api_version >= KNOWN_ID_REQUIRED_VERSION:
            self._roster.pending[new_id] = None
            self._sessions.await_return(new_id, request.session_timeout_ms)
            self._generation.note(GroupEventKind.ID_GIVEN, new_id, "")
            response = refused_join(ErrorCode.MEMBER_ID_REQUIRED, new_id)
            self._scope.outbox.answer(ticket, response)
        else:
            self._add(request, caller, ticket, new_id)

    def _add(
        self, request: JoinGroupRequest, caller: RequestOrigin, ticket: Ticket, member_id: str
    ) -> None:
        member = ClassicGroupMember(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            protocols=protocols_of(request),
            is_new=True,
        )
        self._roster.add(member, request.protocol_type)
        self._roster.park_join(member, ParkedJoin(ticket, caller.api_version))
        self._sessions.begin(member)
        self._generation.note(GroupEventKind.JOINED, member_id, _terms(request))
        if self._generation.state is ClassicGroupState.PREPARING_REBALANCE:
            self._rebalance.on_newcomer()
        self._rebalance.go_on(f"{member_id} joined")

    # Members that rejoin.

    def _join_again(
        self, member: ClassicGroupMember, request: JoinGroupRequest, join: ParkedJoin
    ) -> None:
        assert self._roster.members.get(member.member_id) is member, "no rebalance would answer it"
        state = self._generation.state
        is_leader = member.member_id == self._roster.leader_id
        is_unchanged = member.protocols == protocols_of(request)
        # The leader rejoins to start a rebalance, for example when it has seen topics change.
        has_current = is_unchanged and (
            state is ClassicGroupState.COMPLETING_REBALANCE
            or (state is ClassicGroupState.STABLE and not is_leader)
        )
        if has_current:
            # The response was lost, or the member needs its assignment again.
            self._sessions.extend(member)
            response = self._generation.current_answer(member, with_members=is_leader)
            self._scope.outbox.answer(join.ticket, response)
            return
        earlier = self._roster.take_join(member)
        if earlier is not None:
            # The client has given up its first request and reads only the second response.
            # Clients of every age retry after this error code.
            response = refused_join(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, member.member_id)
            self._scope.outbox.answer(earlier.ticket, response)
        self._roster.update(member, request)
        if not member.is_new:
            self._sessions.extend(member)
        self._roster.park_join(member, join)
        if state is not ClassicGroupState.PREPARING_REBALANCE:
            # Rejoining during a rebalance is expected; noting it would push out useful events.
            self._generation.note(GroupEventKind.REJOINED, member.member_id, _terms(request))
        changed = "as the leader" if is_leader else "with another subscription"
        self._rebalance.go_on(f"{member.member_id} joined again {changed}")


def _terms(request: JoinGroupRequest) -> str:
    """The timeouts and the reason of a JoinGroup, as text."""
    session_ms, rebalance_ms = request.session_timeout_ms, rebalance_timeout_ms(request)
    text = f"session timeout {session_ms} ms, rebalance timeout {rebalance_ms} ms"
    return f"{text}; {request.reason}" if request.reason else text

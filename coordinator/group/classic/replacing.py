"""Replaces a static member by a new process with the same instance id (KIP-345).

The newest process wins; the one before gets FENCED_INSTANCE_ID for every request. If the group is
stable and nothing else changes there is no rebalance: the new id is written to the log and
returned once it is committed, so that no later coordinator fences the wrong process (hazard G-07).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.failures import answer_to
from ottla.coordinator.group.classic.member import ParkedJoin, topics_of
from ottla.coordinator.group.classic.replies import refused_join
from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.outbox import Continuation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin, Ticket
    from ottla.coordinator.group.classic.generation import Generation
    from ottla.coordinator.group.classic.member import ClassicGroupMember
    from ottla.coordinator.group.classic.rebalance import Rebalance
    from ottla.coordinator.group.classic.sessions import Sessions
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.protocol.messages.join_group import JoinGroupRequest

SKIP_ASSIGNMENT_VERSION = 9


class _Change(NamedTuple):
    """A replacement whose record is being written; ``join`` is answered when it is committed."""

    old_id: str
    new_id: str
    old_leader: str
    join: ParkedJoin


class Replacing:
    """Replaces static members of one group."""

    def __init__(
        self, scope: GroupScope, generation: Generation, rebalance: Rebalance, sessions: Sessions
    ) -> None:
        self._scope = scope
        self._rebalance = rebalance
        self._generation = generation
        self._roster = rebalance.roster
        self._sessions = sessions

    def replace(
        self,
        member: ClassicGroupMember,
        new_id: str,
        request: JoinGroupRequest,
        caller: RequestOrigin,
        ticket: Ticket,
    ) -> None:
        """Give the membership to the process that sent this JoinGroup."""
        roster, generation = self._roster, self._generation
        assert roster.members.get(member.member_id) is member
        join = ParkedJoin(ticket, caller.api_version)
        change = _Change(member.member_id, new_id, roster.leader_id or "", join)
        self._fence(member)
        topics = self._topics(member)
        self._rename(member, new_id)
        roster.update(member, request, caller)
        self._sessions.begin(member)
        roster.park_join(member, join)
        generation.note(GroupEventKind.REPLACED, new_id, f"it was {change.old_id}")
        # The metadata as a whole always differs: it names the partitions that the member had.
        is_same = roster.select_protocol() == generation.protocol_name
        if (
            generation.state is ClassicGroupState.STABLE
            and is_same
            and topics == self._topics(member)
        ):
            self._store(member, change)
        else:
            # In CompletingRebalance too: the leader may already be assigning to the old id.
            self._rebalance.go_on(f"{new_id} replaced {change.old_id}")

    def _fence(self, member: ClassicGroupMember) -> None:
        fenced = ErrorCode.FENCED_INSTANCE_ID
        earlier = self._roster.take_join(member)
        if earlier is not None:
            response = refused_join(fenced, member.member_id)
            self._scope.outbox.answer(earlier.ticket, response)
        self._rebalance.refuse_sync(member, fenced)

    def _topics(self, member: ClassicGroupMember) -> frozenset[str] | None:
        metadata = member.metadata(self._generation.protocol_name)
        return topics_of(self._roster.protocol_type, metadata)

    def _rename(self, member: ClassicGroupMember, new_id: str) -> None:
        pending_sync = self._rebalance.pending_sync
        assert new_id not in pending_sync
        self._sessions.end(member.member_id)
        if member.member_id in pending_sync:
            del pending_sync[member.member_id]
            pending_sync[new_id] = None
        self._roster.rename(member, new_id)
        assert self._roster.members.get(new_id) is member, "the new process would be fenced"

    # Without a rebalance.

    def _store(self, member: ClassicGroupMember, change: _Change) -> None:
        members = self._roster.members.values()
        record = self._generation.record({one.member_id: one.assignment for one in members})
        self._generation.append(
            record,
            Continuation(
                on_committed=lambda: self._on_stored(member, change),
                on_failed=lambda error: self._on_failed(member, change, error),
                on_overdue=lambda: self._refuse(member, change, ErrorCode.REQUEST_TIMED_OUT),
            ),
        )

    def _take(self, member: ClassicGroupMember, change: _Change) -> bool:
        """Take the parked JoinGroup; False if it is not to be answered here because a rebalance has
        begun, in which the member counts as joined, or another process replaced it."""
        is_mine = member.parked_join is change.join and member.member_id == change.new_id
        if not is_mine or self._generation.state is not ClassicGroupState.STABLE:
            return False
        self._roster.take_join(member)
        self._sessions.extend(member)
        return True

    def _on_stored(self, member: ClassicGroupMember, change: _Change) -> None:
        if not self._take(member, change):
            return
        can_skip = change.join.api_version >= SKIP_ASSIGNMENT_VERSION
        is_leader = self._roster.leader_id == change.new_id
        response = self._generation.current_answer(member, with_members=can_skip and is_leader)
        if can_skip:
            # The leader must not assign now: nothing has changed (KIP-814).
            response.skip_assignment = is_leader
        else:
            # An older client would send an assignment if it knew that it leads.
            response.leader = change.old_leader
        self._scope.outbox.answer(change.join.ticket, response)

    def _on_failed(self, member: ClassicGroupMember, change: _Change, error: ErrorCode) -> None:
        self._generation.note(GroupEventKind.WRITE_FAILED, change.new_id, error.name)
        if not self._refuse(member, change, error):
            return
        assert member.member_id == change.new_id, "a third process would be fenced"
        # The log knows only the old process, which may still be alive.
        self._rename(member, change.old_id)
        self._sessions.begin(member)

    def _refuse(self, member: ClassicGroupMember, change: _Change, error: ErrorCode) -> bool:
        if not self._take(member, change):
            return False
        response = refused_join(answer_to(error))
        self._scope.outbox.answer(change.join.ticket, response)
        return True

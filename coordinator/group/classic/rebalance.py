"""Rebalances of a classic group: members join, a generation forms, members get assignments.

A rebalance begins with ``prepare``. It completes when every member has joined, or at the join
timer without the dynamic members that have not; the first rebalance of an empty group instead
waits as long as new members keep joining (KIP-134). Then each member must send SyncGroup before
the sync timer, or it is removed (KAFKA-12890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.generation import IN_A_GENERATION
from ottla.coordinator.group.classic.replies import refused_join, refused_sync
from ottla.coordinator.group.classic.sessions import JOIN, SYNC
from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.common.timeline import GroupEventKind, counted
from ottla.coordinator.outbox import Continuation, nothing
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.group.classic.generation import Generation
    from ottla.coordinator.group.classic.member import ClassicGroupMember
    from ottla.coordinator.group.classic.sessions import Sessions
    from ottla.coordinator.group.common.scope import GroupScope

# Used if all members are absent and have a rebalance timeout of 0.
_RETRY_MS = 1_000
# How many member ids an event's text lists.
NAMED_MAX = 2


class Rebalance:
    """Runs the rebalances of one group. ``pending_sync``: members that have not sent SyncGroup."""

    def __init__(self, scope: GroupScope, generation: Generation, sessions: Sessions) -> None:
        self.roster = generation.roster
        self.pending_sync: dict[str, None] = {}
        self._scope = scope
        self._generation = generation
        self._sessions = sessions
        self._is_first_round = False
        self._has_newcomers = False
        self._remaining_ms = 0.0

    # A rebalance begins.

    def go_on(self, reason: str) -> None:
        """Start a rebalance, or re-check the current one, after a change of the members."""
        if self._generation.state is ClassicGroupState.PREPARING_REBALANCE:
            self.maybe_complete()
        else:
            self.prepare(reason)

    def prepare(self, reason: str) -> None:
        """Start a rebalance; parked SyncGroup requests get REBALANCE_IN_PROGRESS."""
        self.refuse_syncs(ErrorCode.REBALANCE_IN_PROGRESS)
        self.pending_sync.clear()
        self._sessions.stop(SYNC)
        self._is_first_round = self._generation.state is ClassicGroupState.EMPTY
        self._generation.move_to(ClassicGroupState.PREPARING_REBALANCE)
        if self._is_first_round:
            self._generation.note(GroupEventKind.REBALANCE_STARTED, "", reason)
            delay_ms = self._scope.settings.initial_rebalance_delay_ms
            self._has_newcomers = False
            self._remaining_ms = max(self.roster.rebalance_timeout_ms - delay_ms, 0)
            self._sessions.start(JOIN, delay_ms)
        elif self.roster.has_all_joined:
            self._generation.note(GroupEventKind.REBALANCE_STARTED, "", reason)
            self.complete()
        else:
            waiting = f"{reason}; waiting for {self._missing_members()}"
            self._generation.note(GroupEventKind.REBALANCE_STARTED, "", waiting)
            self._sessions.start(JOIN, self.roster.rebalance_timeout_ms)

    def _missing_members(self) -> str:
        """The members that have not rejoined: most often their application stopped polling."""
        members = self.roster.members.values()
        missing = [one.member_id for one in members if one.parked_join is None]
        named = ", ".join(missing[:NAMED_MAX])
        more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
        return f"{named}{more} to join again, at most {self.roster.rebalance_timeout_ms} ms"

    def on_newcomer(self) -> None:
        """Extend the first rebalance: more members may be about to join."""
        self._has_newcomers = True

    def maybe_complete(self) -> None:
        """Complete the rebalance if all have joined; the first one waits for its timer."""
        is_open = (
            self._generation.state is ClassicGroupState.PREPARING_REBALANCE
            and not self._is_first_round
        )
        if is_open and self.roster.has_all_joined:
            self.complete()

    def on_join_timer(self) -> None:
        """Extend the first rebalance if members have joined, otherwise complete the rebalance."""
        assert self._generation.state is ClassicGroupState.PREPARING_REBALANCE
        if self._is_first_round and self._has_newcomers and self._remaining_ms > 0:
            delay_ms = self._scope.settings.initial_rebalance_delay_ms
            extension_ms = min(delay_ms, self._remaining_ms)
            self._has_newcomers = False
            self._remaining_ms = max(self._remaining_ms - delay_ms, 0)
            self._sessions.start(JOIN, extension_ms)
            self._generation.note(
                GroupEventKind.REBALANCE_EXTENDED, "", f"{extension_ms:.0f} ms for newcomers"
            )
        else:
            self.complete()

    # The generation is formed.

    def complete(self) -> None:
        """Form a generation of the members that have joined."""
        assert self._generation.state is ClassicGroupState.PREPARING_REBALANCE
        roster = self.roster
        self._sessions.stop(JOIN)
        timeout_ms = roster.rebalance_timeout_ms
        missing = [one for one in roster.members.values() if one.parked_join is None]
        for member in missing:
            # An absent static member stays a member until its session ends.
            if not member.is_static:
                why = f"it did not join again within the rebalance timeout of {timeout_ms} ms"
                self.remove(member, GroupEventKind.REMOVED, why)
        self._is_first_round = False
        if roster.members and not roster.elect_leader():
            # Only static members, all absent. Their sessions will end, or one of them rejoins.
            self._sessions.start(JOIN, max(timeout_ms, _RETRY_MS))
            return
        self._generation.next_generation()
        if roster.members:
            self._form_generation()
        else:
            self._become_empty()

    def _become_empty(self) -> None:
        assert not self.pending_sync
        self._generation.move_to(ClassicGroupState.EMPTY)
        self._generation.note(GroupEventKind.EMPTY, "", "")
        # If this record is not written, a restart restores an earlier generation; it ends again
        # when the sessions of its members end.
        self._generation.append(
            self._generation.record({}), Continuation(nothing, self._note_failure)
        )

    def _form_generation(self) -> None:
        roster = self.roster
        self._generation.move_to(ClassicGroupState.COMPLETING_REBALANCE)
        members = roster.members.values()
        chosen = f"leader {roster.leader_id}, protocol {self._generation.protocol_name}"
        self._generation.note(GroupEventKind.GENERATION, "", f"{counted(len(members))}, {chosen}")
        # Taken before the first response: all see the same list.
        listed = self._generation.listed_members()
        for member in members:
            join = roster.take_join(member)
            if join is not None:
                response = self._generation.current_answer(member)
                if member.member_id == roster.leader_id:
                    response.members = listed
                self._scope.outbox.answer(join.ticket, response)
            member.assignment = b""
            member.is_new = False
            self._sessions.begin(member)
        assert roster.parked_join_count == 0, "a member would wait until the next rebalance"
        self.pending_sync = dict.fromkeys(roster.members)
        self._sessions.start(SYNC, roster.rebalance_timeout_ms)

    # The assignment.

    def on_synced(self, member_id: str) -> None:
        """The member has sent SyncGroup."""
        self.pending_sync.pop(member_id, None)
        if not self.pending_sync:
            self._sessions.stop(SYNC)

    def on_sync_timer(self) -> None:
        """Remove the members that have not sent SyncGroup and start a rebalance."""
        assert self._generation.state in IN_A_GENERATION
        assert self.pending_sync, "the timer ends with the last SyncGroup"
        assert self.pending_sync.keys() <= self.roster.members.keys()
        timeout_ms = self.roster.rebalance_timeout_ms
        why = f"it did not ask for its assignment within the rebalance timeout of {timeout_ms} ms"
        for member_id in list(self.pending_sync):
            self.remove(self.roster.members[member_id], GroupEventKind.REMOVED, why)
        self.prepare("members did not ask for their assignment")

    def become_stable(self, assignments: Mapping[str, bytes]) -> None:
        """Set the assignments, which are in the log now, and enter Stable."""
        assert self.roster.parked_join_count == 0, "a join starts another rebalance"
        self._generation.move_to(ClassicGroupState.STABLE)
        self._generation.note(
            GroupEventKind.ASSIGNED, "", f"to {counted(len(self.roster.members))}"
        )
        for member in self.roster.members.values():
            member.assignment = assignments.get(member.member_id, b"")

    def refuse_syncs(self, error: ErrorCode) -> None:
        """Answer every parked SyncGroup with the error; the members' sessions restart."""
        for member in self.roster.members.values():
            if self.refuse_sync(member, error):
                self._sessions.extend(member)

    def refuse_sync(self, member: ClassicGroupMember, error: ErrorCode) -> bool:
        """Answer the member's parked SyncGroup; return whether there was one."""
        ticket, member.parked_sync = member.parked_sync, None
        if ticket is not None:
            self._scope.outbox.answer(ticket, refused_sync(error))
        return ticket is not None

    # Members go.

    def remove(self, member: ClassicGroupMember, kind: GroupEventKind, why: str) -> None:
        """Remove a member; the caller starts the rebalance. A client that is still alive gets
        UNKNOWN_MEMBER_ID and has to join as a new member."""
        assert self.roster.members.get(member.member_id) is member
        join = self.roster.take_join(member)
        if join is not None:
            self._scope.outbox.answer(join.ticket, refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
        self.refuse_sync(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.roster.remove(member.member_id)
        self.pending_sync.pop(member.member_id, None)
        self._sessions.end(member.member_id)
        self._generation.note(kind, member.member_id, why)

    def die(self, error: ErrorCode) -> None:
        """Answer all parked requests with the error and enter Dead, the final state."""
        for member in self.roster.members.values():
            join = self.roster.take_join(member)
            if join is not None:
                member_id = "" if member.is_new else member.member_id
                self._scope.outbox.answer(join.ticket, refused_join(error, member_id))
            self.refuse_sync(member, error)
        assert self.roster.parked_join_count == 0
        for member_id in (*self.roster.members, *self.roster.pending):
            self._sessions.end(member_id)
        self._sessions.stop(JOIN)
        self._sessions.stop(SYNC)
        self._generation.move_to(ClassicGroupState.DEAD)

    def _note_failure(self, error: ErrorCode) -> None:
        self._generation.note(GroupEventKind.WRITE_FAILED, "", error.name)

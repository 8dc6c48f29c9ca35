"""Rounds of a classic group: all members join, one generation is formed, all are assigned.

A round begins with ``prepare``. It is complete when every member has joined, or at the join timer
without the dynamic members that have not; the first round of an empty group instead waits for
newcomers as long as they keep coming (KIP-134). Then every member has to ask for its assignment
before the sync timer, or is removed as well (KAFKA-12890).
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

# When all are away, and a client has asked for no time at all.
_RETRY_MS = 1_000
# A sentence has room for these ids.
NAMED_MAX = 2


class Rebalance:
    """Of one group. ``pending_sync``: who has not asked for its assignment yet."""

    def __init__(self, scope: GroupScope, generation: Generation, sessions: Sessions) -> None:
        self.roster = generation.roster
        self.pending_sync: dict[str, None] = {}
        self._scope = scope
        self._generation = generation
        self._sessions = sessions
        self._is_first_round = False
        self._has_newcomers = False
        self._remaining_ms = 0.0

    # A round begins.

    def go_on(self, reason: str) -> None:
        """Something about the members is different."""
        if self._generation.state is ClassicGroupState.PREPARING_REBALANCE:
            self.maybe_complete()
        else:
            self.prepare(reason)

    def prepare(self, reason: str) -> None:
        """Call everybody back; whoever waits for an assignment of the old round joins again."""
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
        """Whom everybody else waits for: most often one whose application has stopped polling."""
        members = self.roster.members.values()
        missing = [one.member_id for one in members if one.parked_join is None]
        named = ", ".join(missing[:NAMED_MAX])
        more = f" and {len(missing) - NAMED_MAX} more" if len(missing) > NAMED_MAX else ""
        return f"{named}{more} to join again, at most {self.roster.rebalance_timeout_ms} ms"

    def on_newcomer(self) -> None:
        """Somebody has come during the first round: more may be on their way."""
        self._has_newcomers = True

    def maybe_complete(self) -> None:
        """Complete the round if it waits for nobody. The first one waits for its timer."""
        is_open = (
            self._generation.state is ClassicGroupState.PREPARING_REBALANCE
            and not self._is_first_round
        )
        if is_open and self.roster.has_all_joined:
            self.complete()

    def on_join_timer(self) -> None:
        """The members have had their time."""
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
        """Go on with those who have joined."""
        assert self._generation.state is ClassicGroupState.PREPARING_REBALANCE
        roster = self.roster
        self._sessions.stop(JOIN)
        timeout_ms = roster.rebalance_timeout_ms
        missing = [one for one in roster.members.values() if one.parked_join is None]
        for member in missing:
            # A static member is away for a while, and keeps its place for its session.
            if not member.is_static:
                why = f"it did not join again within the rebalance timeout of {timeout_ms} ms"
                self.remove(member, GroupEventKind.REMOVED, why)
        self._is_first_round = False
        if roster.members and not roster.elect_leader():
            # Only static members, all away. Their sessions will end, or one of them comes back.
            self._sessions.start(JOIN, max(timeout_ms, _RETRY_MS))
            return
        self._generation.next_generation()
        if roster.members:
            self._form_generation()
        else:
            self._become_empty()

    def _become_empty(self) -> None:
        self._generation.move_to(ClassicGroupState.EMPTY)
        self._generation.note(GroupEventKind.EMPTY, "", "")
        # Should this record fail, an earlier generation comes back after a restart, and goes
        # again as its members' sessions end.
        self._generation.append(
            self._generation.record({}), Continuation(nothing, self._note_failure)
        )

    def _form_generation(self) -> None:
        roster = self.roster
        self._generation.move_to(ClassicGroupState.COMPLETING_REBALANCE)
        members = roster.members.values()
        chosen = f"leader {roster.leader_id}, protocol {self._generation.protocol_name}"
        self._generation.note(GroupEventKind.GENERATION, "", f"{counted(len(members))}, {chosen}")
        # Before anybody is answered: all get the same list.
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
        self.pending_sync = dict.fromkeys(roster.members)
        self._sessions.start(SYNC, roster.rebalance_timeout_ms)

    # The assignment.

    def on_synced(self, member_id: str) -> None:
        """The member has asked for its assignment."""
        self.pending_sync.pop(member_id, None)
        if not self.pending_sync:
            self._sessions.stop(SYNC)

    def on_sync_timer(self) -> None:
        """Some have not asked for their assignment: they go, and their partitions with them."""
        assert self._generation.state in IN_A_GENERATION
        timeout_ms = self.roster.rebalance_timeout_ms
        why = f"it did not ask for its assignment within the rebalance timeout of {timeout_ms} ms"
        for member_id in list(self.pending_sync):
            self.remove(self.roster.members[member_id], GroupEventKind.REMOVED, why)
        self.prepare("members did not ask for their assignment")

    def become_stable(self, assignments: Mapping[str, bytes]) -> None:
        """The assignment is stored: hand it out."""
        self._generation.move_to(ClassicGroupState.STABLE)
        self._generation.note(
            GroupEventKind.ASSIGNED, "", f"to {counted(len(self.roster.members))}"
        )
        for member in self.roster.members.values():
            member.assignment = assignments.get(member.member_id, b"")

    def refuse_syncs(self, error: ErrorCode) -> None:
        """Nobody gets an assignment now; sessions go on from here."""
        for member in self.roster.members.values():
            if self.refuse_sync(member, error):
                self._sessions.extend(member)

    def refuse_sync(self, member: ClassicGroupMember, error: ErrorCode) -> bool:
        """Answer the SyncGroup that is parked for the member, if one is."""
        ticket, member.parked_sync = member.parked_sync, None
        if ticket is not None:
            self._scope.outbox.answer(ticket, refused_sync(error))
        return ticket is not None

    # Members go.

    def remove(self, member: ClassicGroupMember, kind: GroupEventKind, why: str) -> None:
        """Without a round: whoever calls this starts one. A client that is still there learns
        from UNKNOWN_MEMBER_ID that it has to join as somebody new."""
        join = self.roster.take_join(member)
        if join is not None:
            self._scope.outbox.answer(join.ticket, refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
        self.refuse_sync(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.roster.remove(member.member_id)
        self.pending_sync.pop(member.member_id, None)
        self._sessions.end(member.member_id)
        self._generation.note(kind, member.member_id, why)

    def die(self, error: ErrorCode) -> None:
        """Answer everybody; nothing happens in this group any more."""
        for member in self.roster.members.values():
            join = self.roster.take_join(member)
            if join is not None:
                member_id = "" if member.is_new else member.member_id
                self._scope.outbox.answer(join.ticket, refused_join(error, member_id))
            self.refuse_sync(member, error)
        for member_id in (*self.roster.members, *self.roster.pending):
            self._sessions.end(member_id)
        self._sessions.stop(JOIN)
        self._sessions.stop(SYNC)
        self._generation.move_to(ClassicGroupState.DEAD)

    def _note_failure(self, error: ErrorCode) -> None:
        self._generation.note(GroupEventKind.WRITE_FAILED, "", error.name)

"""Timers of a KIP-848 group's members: session, revocation, and two for classic members.

Every member has a session timer. A heartbeat only moves the deadline stored in the member; when
the timer fires before that deadline, it is set again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.member import MemberState
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.consumer.member import ConsumerGroupMember

# They differ from the kinds of classic groups: equal named tuples are equal keys, and a group that
# changes its kind stops the old timers while it starts the new ones.
SESSION = "consumer session"
REVOCATION = "revocation"
JOIN = "classic join"
SYNC = "classic sync"

KINDS = (SESSION, REVOCATION, JOIN, SYNC)


class ConsumerTimer(NamedTuple):
    """The part of a key in ``GroupScope.deadlines`` after the group id."""

    kind: str
    member_id: str


class Timers:
    """Timers of one group."""

    def __init__(self, group_id: str, scope: GroupScope) -> None:
        self._group_id = group_id
        self._scope = scope
        self._deadlines = scope.deadlines

    def session_timeout_ms(self, member: ConsumerGroupMember) -> int:
        """The session timeout: chosen by a classic member, configured by the broker for others."""
        classic = member.subscription.classic
        if classic is not None:
            return classic.session_timeout_ms
        return self._scope.session_timeout_ms(self._group_id)

    def begin_session(self, member: ConsumerGroupMember) -> None:
        """Start the member's session."""
        self.extend_session(member)
        key = (self._group_id, ConsumerTimer(SESSION, member.member_id))
        self._deadlines.set(key, member.session_deadline_ms)

    def extend_session(self, member: ConsumerGroupMember) -> None:
        """Restart the member's session; this is the cost of a heartbeat."""
        timeout_ms = self.session_timeout_ms(member)
        member.session_deadline_ms = self._scope.moment.now_ms + timeout_ms
        if timeout_ms < member.session_timeout_ms:
            # The timer was set for the longer timeout and would fire late.
            key = (self._group_id, ConsumerTimer(SESSION, member.member_id))
            self._deadlines.set(key, member.session_deadline_ms)
        member.session_timeout_ms = timeout_ms

    def start(self, kind: str, member: ConsumerGroupMember) -> None:
        """Start a timer with the member's rebalance timeout; a running one is replaced."""
        assert kind != SESSION, "a session has a timeout of its own"
        deadline_ms = self._scope.moment.now_ms + member.subscription.rebalance_timeout_ms
        self._deadlines.set((self._group_id, ConsumerTimer(kind, member.member_id)), deadline_ms)

    def start_once(self, kind: str, member: ConsumerGroupMember) -> None:
        """Like ``start``, but a running timer continues: a repeated request gains no time."""
        if (self._group_id, ConsumerTimer(kind, member.member_id)) not in self._deadlines:
            self.start(kind, member)

    def stop(self, kind: str, member_id: str) -> None:
        """Stop a member's timer."""
        self._deadlines.cancel((self._group_id, ConsumerTimer(kind, member_id)))

    def stop_all(self, member_id: str) -> None:
        """Stop all timers of a member."""
        for kind in KINDS:
            self.stop(kind, member_id)

    def mend(self, member_id: str, member: ConsumerGroupMember | None) -> None:
        """Set the timers to match a member whose changes were undone; None: it is no member."""
        if member is None:
            self.stop_all(member_id)
            return
        assert member.member_id == member_id, "it would get the timers of another member"
        key = (self._group_id, ConsumerTimer(SESSION, member_id))
        if key not in self._deadlines:
            self._deadlines.set(key, member.session_deadline_ms)
        is_revoking = member.progress.state is MemberState.UNREVOKED_PARTITIONS
        if is_revoking and not member.uses_classic_protocol:
            self.start_once(REVOCATION, member)
        else:
            self.stop(REVOCATION, member_id)
        # It did not get a response that asks it to sync.
        self.stop(SYNC, member_id)

    def has_expired(self, timer: ConsumerTimer, member: ConsumerGroupMember) -> bool:
        """Whether the time is over; a session that was extended gets its timer set again."""
        assert timer.member_id == member.member_id, "another member would be removed"
        if timer.kind != SESSION:
            return True
        if member.session_deadline_ms <= self._scope.moment.now_ms:
            return True
        self._deadlines.set((self._group_id, timer), member.session_deadline_ms)
        return False

    def reason(self, timer: ConsumerTimer, member: ConsumerGroupMember) -> str:
        """Why the member is removed, as text."""
        assert timer.kind in KINDS
        if timer.kind == SESSION:
            return f"nothing heard for {self.session_timeout_ms(member)} ms (session timeout)"
        undone = {REVOCATION: "did not revoke", JOIN: "did not join again", SYNC: "did not sync"}
        timeout_ms = member.subscription.rebalance_timeout_ms
        return f"{undone[timer.kind]} within {timeout_ms} ms (rebalance timeout)"

"""The timers of a classic group: every state and every member has one that limits its waiting.

A heartbeat costs one addition: it moves the session's deadline, not the timer. When the timer
fires before the deadline, it is set again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.group.classic.member import ClassicGroupMember
    from ottla.coordinator.group.common.scope import GroupScope

SESSION = "session"
JOIN = "join"
SYNC = "sync"

# A new member cannot send heartbeats before it knows its id. Whether a client whose JoinGroup is
# parked is still alive is unknown: it may have left and rejoined under another id.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


class ClassicTimer(NamedTuple):
    """The part of a key in ``GroupScope.deadlines`` after the group id; no member: the group's."""

    kind: str
    member_id: str = ""


class Sessions:
    """Sessions and timers of one group."""

    def __init__(self, group_id: str, scope: GroupScope) -> None:
        self._group_id = group_id
        self._scope = scope

    def begin(self, member: ClassicGroupMember) -> None:
        """Start the member's session; that of a new member lasts until a rebalance must be over."""
        length_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        member.session_deadline_ms = self._scope.moment.now_ms + length_ms
        self._arm(member)

    def extend(self, member: ClassicGroupMember) -> None:
        """Restart the member's session. HOT: every heartbeat calls this."""
        deadline_ms = self._scope.moment.now_ms + member.session_timeout_ms
        member.session_deadline_ms = deadline_ms
        if deadline_ms < member.armed_ms:
            self._arm(member)
        assert member.armed_ms <= deadline_ms, "a silent member would stay too long (G-06)"

    def is_over(self, member: ClassicGroupMember) -> bool:
        """Whether the session whose timer fired is over; if not, the timer is set again."""
        if member.is_waiting_here:
            self.extend(member)
        if member.session_deadline_ms <= self._scope.moment.now_ms:
            return True
        self._arm(member)
        assert member.armed_ms > self._scope.moment.now_ms, "the timer would fire again at once"
        return False

    def end(self, member_id: str) -> None:
        """Stop the timer of a member or a pending id."""
        self.stop(SESSION, member_id)

    def await_return(self, member_id: str, timeout_ms: int) -> None:
        """Start the timer of a pending id, which a client must join with (KIP-394)."""
        self.start(SESSION, timeout_ms, member_id)

    def start(self, kind: str, timeout_ms: float, member_id: str = "") -> None:
        """Set a timer; a running one is replaced."""
        assert (kind == SESSION) == bool(member_id), "only sessions are those of one member"
        deadline_ms = self._scope.moment.now_ms + timeout_ms
        self._scope.deadlines.set((self._group_id, ClassicTimer(kind, member_id)), deadline_ms)

    def stop(self, kind: str, member_id: str = "") -> None:
        """Cancel a timer."""
        self._scope.deadlines.cancel((self._group_id, ClassicTimer(kind, member_id)))

    def _arm(self, member: ClassicGroupMember) -> None:
        member.armed_ms = member.session_deadline_ms
        key = (self._group_id, ClassicTimer(SESSION, member.member_id))
        self._scope.deadlines.set(key, member.armed_ms)

"""The timers of a classic group. Each state and each member always has one that ends the waiting.

A heartbeat is one addition: it moves the end of the session, not the timer. The timer comes when
the session would have ended without that heartbeat, sees that it has not, and is set once more.
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

# A newcomer cannot send heartbeats before it knows its id, and nobody can tell whether a client
# whose JoinGroup is parked is still there: it may have gone and come again under another id.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


class ClassicTimer(NamedTuple):
    """A group's part of a key in ``GroupScope.deadlines``; of the group itself without a member."""

    kind: str
    member_id: str = ""


class Sessions:
    """Those of one group."""

    def __init__(self, group_id: str, scope: GroupScope) -> None:
        self._group_id = group_id
        self._scope = scope

    def begin(self, member: ClassicGroupMember) -> None:
        """The member is here; a new one has the time that forming a group may take."""
        length_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        member.session_deadline_ms = self._scope.moment.now_ms + length_ms
        self._arm(member)

    def extend(self, member: ClassicGroupMember) -> None:
        """The member has shown that it lives. HOT: every heartbeat comes here."""
        deadline_ms = self._scope.moment.now_ms + member.session_timeout_ms
        member.session_deadline_ms = deadline_ms
        if deadline_ms < member.armed_ms:
            self._arm(member)

    def is_over(self, member: ClassicGroupMember) -> bool:
        """The timer of the member has come: whether it means it. Otherwise it is set again."""
        if member.is_waiting_here:
            self.extend(member)
        if member.session_deadline_ms <= self._scope.moment.now_ms:
            return True
        self._arm(member)
        return False

    def end(self, member_id: str) -> None:
        """The member, or whoever was given the id, is not waited for any more."""
        self.stop(SESSION, member_id)

    def await_return(self, member_id: str, timeout_ms: int) -> None:
        """Somebody was given the id and is to come again with it (KIP-394)."""
        self.start(SESSION, timeout_ms, member_id)

    def start(self, kind: str, timeout_ms: float, member_id: str = "") -> None:
        """Set a timer, anew if it is running."""
        deadline_ms = self._scope.moment.now_ms + timeout_ms
        self._scope.deadlines.set((self._group_id, ClassicTimer(kind, member_id)), deadline_ms)

    def stop(self, kind: str, member_id: str = "") -> None:
        """The timer shall not come."""
        self._scope.deadlines.cancel((self._group_id, ClassicTimer(kind, member_id)))

    def _arm(self, member: ClassicGroupMember) -> None:
        member.armed_ms = member.session_deadline_ms
        key = (self._group_id, ClassicTimer(SESSION, member.member_id))
        self._scope.deadlines.set(key, member.armed_ms)

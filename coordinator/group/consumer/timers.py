"""The deadlines of a KIP-848 group's members: session, revocation, and the two of classic members.

Every member has a session timer as long as it is there. A heartbeat only moves the moment that
the member itself remembers; the timer, when it fires, looks there and goes off again if need be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.member import MemberState
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.consumer.member import ConsumerGroupMember

# Not the words of classic groups: named tuples of equal strings are equal keys, and a group that
# changes its kind stops the timers of the one while it starts those of the other.
SESSION = "consumer session"
REVOCATION = "revocation"
JOIN = "classic join"
SYNC = "classic sync"

KINDS = (SESSION, REVOCATION, JOIN, SYNC)


class ConsumerTimer(NamedTuple):
    """The group's part of a key in ``GroupScope.deadlines``."""

    kind: str
    member_id: str


class Timers:
    """Those of one group."""

    def __init__(self, group_id: str, scope: GroupScope) -> None:
        self._group_id = group_id
        self._scope = scope
        self._deadlines = scope.deadlines

    def session_timeout_ms(self, member: ConsumerGroupMember) -> int:
        """Members of the classic protocol chose theirs; for the others the broker does."""
        classic = member.subscription.classic
        if classic is not None:
            return classic.session_timeout_ms
        return self._scope.session_timeout_ms(self._group_id)

    def begin_session(self, member: ConsumerGroupMember) -> None:
        """From now on the member has to show that it lives."""
        self.extend_session(member)
        key = (self._group_id, ConsumerTimer(SESSION, member.member_id))
        self._deadlines.set(key, member.session_deadline_ms)

    def extend_session(self, member: ConsumerGroupMember) -> None:
        """The member lives. This is what a heartbeat costs."""
        timeout_ms = self.session_timeout_ms(member)
        member.session_deadline_ms = self._scope.moment.now_ms + timeout_ms
        if timeout_ms < member.session_timeout_ms:
            # The timer, set in the time of the longer one, would be late.
            key = (self._group_id, ConsumerTimer(SESSION, member.member_id))
            self._deadlines.set(key, member.session_deadline_ms)
        member.session_timeout_ms = timeout_ms

    def start(self, kind: str, member: ConsumerGroupMember) -> None:
        """Give the member its rebalance timeout for that; what is running begins anew."""
        deadline_ms = self._scope.moment.now_ms + member.subscription.rebalance_timeout_ms
        self._deadlines.set((self._group_id, ConsumerTimer(kind, member.member_id)), deadline_ms)

    def start_once(self, kind: str, member: ConsumerGroupMember) -> None:
        """As ``start``, but what is running goes on: asking again buys no time."""
        if (self._group_id, ConsumerTimer(kind, member.member_id)) not in self._deadlines:
            self.start(kind, member)

    def stop(self, kind: str, member_id: str) -> None:
        """The member has done it."""
        self._deadlines.cancel((self._group_id, ConsumerTimer(kind, member_id)))

    def stop_all(self, member_id: str) -> None:
        """The member is gone."""
        for kind in KINDS:
            self.stop(kind, member_id)

    def mend(self, member_id: str, member: ConsumerGroupMember | None) -> None:
        """Let the timers be those of a member, or of somebody who is none, after what was begun
        with them has been taken back."""
        if member is None:
            self.stop_all(member_id)
            return
        key = (self._group_id, ConsumerTimer(SESSION, member_id))
        if key not in self._deadlines:
            self._deadlines.set(key, member.session_deadline_ms)
        is_revoking = member.progress.state is MemberState.UNREVOKED_PARTITIONS
        if is_revoking and not member.uses_classic_protocol:
            self.start_once(REVOCATION, member)
        else:
            self.stop(REVOCATION, member_id)
        # It was not told to sync.
        self.stop(SYNC, member_id)

    def has_expired(self, timer: ConsumerTimer, member: ConsumerGroupMember) -> bool:
        """Whether a timer that fired means it; a session that was extended goes on instead."""
        if timer.kind != SESSION:
            return True
        if member.session_deadline_ms <= self._scope.moment.now_ms:
            return True
        self._deadlines.set((self._group_id, timer), member.session_deadline_ms)
        return False

    def reason(self, timer: ConsumerTimer, member: ConsumerGroupMember) -> str:
        """Why the member has to go, for people."""
        if timer.kind == SESSION:
            return f"nothing heard for {self.session_timeout_ms(member)} ms (session timeout)"
        undone = {REVOCATION: "did not revoke", JOIN: "did not join again", SYNC: "did not sync"}
        timeout_ms = member.subscription.rebalance_timeout_ms
        return f"{undone[timer.kind]} within {timeout_ms} ms (rebalance timeout)"

"""State of a member in either protocol: its identity, what it holds, and pending changes. Pure.

Two tasks use it. The membership's task asks ``advance`` for the next request and reports the
result. The application's task carries out changes of the assignment, only while it polls: so no
record is handed out without the listener's knowledge, and none of a partition after it was revoked.
A member does not join again before the application has carried out its change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.group.change import (
    AssignmentChange,
    LogNote,
    MembershipPhase,
    MembershipRefusal,
    NextAction,
    change_of,
)
from ottla.client.group.identity import NO_GENERATION, NO_MEMBER, GroupIdentity
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.group.change import MemberSettings
    from ottla.protocol.ids import TopicPartition

MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
# In these phases there is a member, which leaves if the application is silent.
ALIVE = frozenset(
    {
        MembershipPhase.YIELDING,
        MembershipPhase.JOINING,
        MembershipPhase.SYNCING,
        MembershipPhase.STABLE,
    }
)
# In these phases heartbeats keep it alive.
HEARTBEATING = frozenset({MembershipPhase.YIELDING, MembershipPhase.STABLE})


class Liveness:
    """Tracks two proofs of life: polls of the application and answered heartbeats.

    A member that does not poll for ``max_poll_interval_ms`` leaves, so that another member reads
    its partitions. A member without an answer for ``session_timeout_ms`` may have been expired: it
    hands out no records until the coordinator has answered. Owned by one member."""

    __slots__ = ("_contact_ms", "_is_polling", "_polled_ms", "_settings")

    def __init__(self, settings: MemberSettings) -> None:
        self._settings = settings
        self._is_polling = False
        self._polled_ms = 0.0
        self._contact_ms = 0.0

    def enter_poll(self) -> None:
        """Record that the application waits for records: it is alive as long as it waits."""
        self._is_polling = True

    def exit_poll(self, now_ms: float) -> None:
        """Record that the application has stopped waiting; its poll interval begins."""
        self._is_polling = False
        self._polled_ms = now_ms

    def progress(self, now_ms: float) -> None:
        """Record that the application has taken a record, without a poll."""
        self._polled_ms = now_ms

    @property
    def silent_at_ms(self) -> float | None:
        """When the application will have been silent for too long; None while it polls."""
        if self._is_polling:
            return None
        return self._polled_ms + self._settings.max_poll_interval_ms

    def is_silent(self, now_ms: float) -> bool:
        """Return whether the application has not polled for too long."""
        silent_at_ms = self.silent_at_ms
        return silent_at_ms is not None and now_ms >= silent_at_ms

    def contact(self, sent_ms: float) -> None:
        """Record an answer to a request sent at that time: the session timer began no earlier."""
        self._contact_ms = max(self._contact_ms, sent_ms)

    def is_doubtful(self, now_ms: float) -> bool:
        """Return whether the coordinator may have expired the member."""
        return now_ms >= self._contact_ms + self._settings.session_timeout_ms


class MemberProtocol:
    """The part that both protocols share; ``ClassicMember`` and ``ConsumerMember`` add the requests
    to the coordinator."""

    def __init__(self, settings: MemberSettings) -> None:
        self.settings = settings
        self.phase = MembershipPhase.OUT
        self.liveness = Liveness(settings)
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        # The identity under which the application holds its partitions. It outlives the membership:
        # a commit after the member was expired has to be refused, and one without any identity
        # would not be (KIP-447).
        self.identity = GroupIdentity(settings.group_id, instance_id=settings.instance_id)
        self.owned: frozenset[TopicPartition] = frozenset()
        self.refusal: MembershipRefusal | None = None
        self.notes: list[LogNote] = []
        # What the application has to carry out next.
        self.change: AssignmentChange | None = None
        self._applying: AssignmentChange | None = None
        self._must_lose = False
        self._next_heartbeat_ms = 0.0

    # The application's side.

    def begin_change(self) -> AssignmentChange | None:
        """Return the change to carry out now; call ``end_change`` when that is done."""
        assert self._applying is None, "one change at a time"
        self._applying, self.change = self.change, None
        return self._applying

    def end_change(self) -> None:
        """Record that the application has carried out the change."""
        change = self._applying
        assert change is not None
        self._applying = None
        gone = frozenset(change.lost) | frozenset(change.revoked)
        self.owned = (self.owned - gone) | frozenset(change.assigned)
        if self._must_lose:
            # The coordinator has forgotten the member in the meantime.
            self._must_lose = False
            self.change = change_of(lost=self.owned)
        self._changed(change)

    def leaving_change(self) -> AssignmentChange | None:
        """Return the change to carry out before ``leave``; it replaces a pending one."""
        assert self._applying is None, "one change at a time"
        is_lost = self.change is not None and bool(self.change.lost)
        self.change = change_of(lost=self.owned) if is_lost else change_of(revoked=self.owned)
        return self.begin_change()

    def leave(self, reason: str, *, is_closing: bool) -> None:
        """End the subscription. ``is_closing``: the whole consumer ends."""
        assert not self.owned
        self.refusal = None
        self.change = None
        self.identity = GroupIdentity(self.settings.group_id, instance_id=self.settings.instance_id)
        self._leave(reason, MembershipPhase.OUT, is_closing=is_closing)

    # The task's side.

    def advance(self, now_ms: float) -> Any:
        """Return the request to send now, or None."""
        raise NotImplementedError

    def answered(self, request: Any, response: Any, sent_ms: float) -> NextAction:
        """Take the coordinator's answer to a request sent at ``sent_ms``."""
        raise NotImplementedError

    def unanswered(self, request: Any) -> None:
        """Record that the coordinator may or may not have received the request."""
        raise NotImplementedError

    def refuse(self, code: ErrorCode, text: str) -> None:
        """Record that asking the coordinator is impossible for good."""
        self._fail(code, text)

    def topics_seen(self, counts: Mapping[str, int], now_ms: float) -> None:
        """Take the partition counts of the topics that exist."""

    def next_ms(self) -> float | None:
        """Return when ``advance`` must be called again at the latest; None if no time is set."""
        if self.phase not in ALIVE:
            return None
        silent_at_ms = self.liveness.silent_at_ms
        if self.phase not in HEARTBEATING:
            return silent_at_ms
        if silent_at_ms is None:
            return self._next_heartbeat_ms
        return min(self._next_heartbeat_ms, silent_at_ms)

    # For the two protocols.

    def _changed(self, change: AssignmentChange) -> None:
        """Called when the application has carried out this change."""

    def _leave(self, reason: str, then: MembershipPhase, *, is_closing: bool = False) -> None:
        """Leave the group, then enter that phase."""
        raise NotImplementedError

    def _offer(self, change: AssignmentChange | None) -> None:
        """Make this the application's next change."""
        assert self._applying is None
        assert self.change is None
        self.change = change

    @property
    def _is_waiting(self) -> bool:
        """Whether the application still has a change to carry out."""
        return self.change is not None or self._applying is not None

    def _lose(self, *, keep_member_id: bool = False) -> None:
        """Stop being a member: all that the application holds is lost."""
        self.generation = NO_GENERATION
        if not keep_member_id:
            self.member_id = NO_MEMBER
        if self._applying is None:
            self.change = change_of(lost=self.owned)
        else:
            self._must_lose = True

    def _fail(self, code: ErrorCode, text: str | None = None) -> NextAction:
        """Record that the coordinator will never accept this member."""
        self.refusal = MembershipRefusal(code, text or code.text)
        self.phase = MembershipPhase.FAILED
        self._lose()
        return NextAction.GO_ON

    def _check_silence(self, now_ms: float) -> None:
        """Leave if the application does not poll; join again when it polls."""
        if self.phase is MembershipPhase.SILENT and not self.liveness.is_silent(now_ms):
            if not self._is_waiting:
                self.phase = MembershipPhase.JOINING
            return
        if self.phase not in ALIVE or not self.liveness.is_silent(now_ms):
            return
        limit_ms = self.settings.max_poll_interval_ms
        self._note(
            f"the application has not polled for {limit_ms} ms, so this member leaves the group "
            "and others read on from what it has committed. Raise max_poll_interval_ms, or take "
            "fewer records at a time, or let another task process them",
            is_warning=True,
        )
        self._lose(keep_member_id=True)
        self._leave("the application does not poll", MembershipPhase.SILENT)

    def _note(self, text: str, *, is_warning: bool = False) -> None:
        self.notes.append(LogNote(f"group {self.settings.group_id!r}: {text}", is_warning))


def names(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as text, for messages."""
    return ", ".join(f"{topic}[{number}]" for topic, number in sorted(partitions)) or "nothing"

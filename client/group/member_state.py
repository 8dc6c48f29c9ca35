"""What a member of either protocol is: who it is, what it holds, and what is to change. Pure.

Two parties work on it. The membership's task asks ``advance`` for the next request and brings back
what became of it. The application's task carries out changes of the assignment, while it polls and
never otherwise: so no record is handed out behind a listener's back, and nothing of a partition
after it was revoked. A member does not join again before the application has done its part.
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
from ottla.client.group.liveness import Liveness
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.group.change import MemberSettings
    from ottla.protocol.ids import TopicPartition

MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
# In these there is a member, which silence ends.
ALIVE = frozenset(
    {
        MembershipPhase.YIELDING,
        MembershipPhase.JOINING,
        MembershipPhase.SYNCING,
        MembershipPhase.STABLE,
    }
)
# In these a heartbeat keeps it alive.
HEARTBEATING = frozenset({MembershipPhase.YIELDING, MembershipPhase.STABLE})


class MemberProtocol:
    """The part that both protocols share; ``ClassicMember`` and ``ConsumerMember`` add the talk
    with the coordinator."""

    def __init__(self, settings: MemberSettings) -> None:
        self.settings = settings
        self.phase = MembershipPhase.OUT
        self.liveness = Liveness(settings)
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        # Under which the application holds what it holds. It outlives the membership: whoever
        # commits with it after the member was expired has to be refused, and somebody without any
        # identity would not be (KIP-447).
        self.identity = GroupIdentity(settings.group_id, instance_id=settings.instance_id)
        self.owned: frozenset[TopicPartition] = frozenset()
        self.refusal: MembershipRefusal | None = None
        self.notes: list[LogNote] = []
        self._change: AssignmentChange | None = None
        self._applying: AssignmentChange | None = None
        self._must_lose = False
        self._next_heartbeat_ms = 0.0

    # The application's side.

    @property
    def has_change(self) -> bool:
        """Whether the application has something to do."""
        return self._change is not None

    def begin_change(self) -> AssignmentChange | None:
        """What the application has to do now; ``end_change`` when that is done."""
        assert self._applying is None, "one change at a time"
        self._applying, self._change = self._change, None
        return self._applying

    def end_change(self) -> None:
        """The application holds what the change says."""
        change = self._applying
        assert change is not None
        self._applying = None
        gone = frozenset(change.lost) | frozenset(change.revoked)
        self.owned = (self.owned - gone) | frozenset(change.assigned)
        if self._must_lose:
            # The coordinator has forgotten us while the application was at it.
            self._must_lose = False
            self._change = change_of(lost=self.owned)
        self._changed(change)

    def leaving_change(self) -> AssignmentChange | None:
        """What the application does before ``leave``. What it was to do before that is moot."""
        assert self._applying is None, "one change at a time"
        is_lost = self._change is not None and bool(self._change.lost)
        self._change = change_of(lost=self.owned) if is_lost else change_of(revoked=self.owned)
        return self.begin_change()

    def leave(self, reason: str, *, is_closing: bool) -> None:
        """Nothing is subscribed any more. ``is_closing``: the whole consumer ends."""
        assert not self.owned
        self.refusal = None
        self._change = None
        self.identity = GroupIdentity(self.settings.group_id, instance_id=self.settings.instance_id)
        self._leave(reason, MembershipPhase.OUT, is_closing=is_closing)

    # The task's side.

    def advance(self, now_ms: float) -> Any:
        """The request to send now, or None."""
        raise NotImplementedError

    def answered(self, request: Any, response: Any, sent_ms: float) -> NextAction:
        """The coordinator has answered what was sent then."""
        raise NotImplementedError

    def unanswered(self, request: Any) -> None:
        """It is unknown whether the coordinator has had the request."""
        raise NotImplementedError

    def refuse(self, code: ErrorCode, text: str) -> None:
        """Asking the coordinator is impossible, and will be."""
        self._fail(code, text)

    def topics_seen(self, counts: Mapping[str, int], now_ms: float) -> None:
        """These topics exist, each with that many partitions."""

    def next_ms(self) -> float | None:
        """When ``advance`` should be asked again, at the latest."""
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
        """The application has carried out this change."""

    def _leave(self, reason: str, then: MembershipPhase, *, is_closing: bool = False) -> None:
        """Leave the group, to be in that phase afterwards."""
        raise NotImplementedError

    def _offer(self, change: AssignmentChange | None) -> None:
        """Let the application do this."""
        assert self._applying is None
        assert self._change is None
        self._change = change

    @property
    def _is_waiting(self) -> bool:
        """Whether the application has not done yet what it was told."""
        return self._change is not None or self._applying is not None

    def _lose(self, *, keep_member_id: bool = False) -> None:
        """We are no member any more: all that the application holds is lost."""
        self.generation = NO_GENERATION
        if not keep_member_id:
            self.member_id = NO_MEMBER
        if self._applying is None:
            self._change = change_of(lost=self.owned)
        else:
            self._must_lose = True

    def _fail(self, code: ErrorCode, text: str | None = None) -> NextAction:
        """The coordinator will never have us like this."""
        self.refusal = MembershipRefusal(code, text or code.text)
        self.phase = MembershipPhase.FAILED
        self._lose()
        return NextAction.GO_ON

    def _check_silence(self, now_ms: float) -> None:
        """Leave if the application does not poll; join again if it does."""
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
    """Partitions in a sentence."""
    return ", ".join(f"{topic}[{number}]" for topic, number in sorted(partitions)) or "nothing"

"""State of a member of a classic group, whose members divide the partitions. Pure.

    OUT       nothing subscribed            subscribe                    -> JOINING
    JOINING   JoinGroup, once the application holds only what it may keep
                                            answered: a generation       -> SYNCING
    SYNCING   SyncGroup, the leader's with all assignments
                                            answered: an assignment      -> STABLE
    STABLE    Heartbeat                     a rebalance, a new subscription, or a leader's topics
                                            have changed                 -> YIELDING or JOINING
    YIELDING  Heartbeat, until the application has given up what it must -> JOINING

Eager assignors (KIP-62) demand that a member gives up everything before a join. Cooperative ones
(KIP-429) let members keep what they have: a member revokes what moves after the assignment that
lacks it, and joins once more to free it for its next owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.group.change import MembershipPhase, NextAction, change_of
from ottla.client.group.identity import NO_GENERATION, NO_MEMBER, GroupIdentity
from ottla.client.group.leadership import GroupLeadership
from ottla.client.group.member_state import ALIVE, MOVED, MemberProtocol, names
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, RemoteProtocolError, error_code
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.leave_group import MemberIdentity as Leaving
from ottla.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.group.assignors.assignor import Assignor, GroupDetails
    from ottla.client.group.change import AssignmentChange, MemberSettings
    from ottla.protocol.ids import TopicPartition

WITH_MEMBER_ID = frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED})
ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest


class ClassicMember(MemberProtocol):
    """Owned by one membership. ``generation`` is the group's; answers to requests of an earlier
    generation or member id are ignored."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        super().__init__(settings)
        assert assignors
        self.topics: tuple[str, ...] | None = None
        # None for a follower.
        self.leadership: GroupLeadership | None = None
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._is_cooperative = all(one.protocol == "cooperative" for one in assignors)
        self._assignor: Assignor = assignors[0]
        self._assignments: dict[str, bytes] = {}
        self._rejoin_reason: str | None = "the member is new"
        self._leaving: tuple[str, MembershipPhase] = ("", MembershipPhase.OUT)

    # The application's side.

    def subscribe(self, topics: Sequence[str], now_ms: float) -> None:
        """Subscribe to these topics; they need not exist."""
        wanted = tuple(sorted(set(topics)))
        if wanted == self.topics and self.phase is not MembershipPhase.FAILED:
            return
        self.topics = wanted
        self._rejoin_reason = "the subscription has changed"
        if self.phase in (MembershipPhase.OUT, MembershipPhase.FAILED, MembershipPhase.LEAVING):
            self.liveness.progress(now_ms)
        if self.phase in (MembershipPhase.OUT, MembershipPhase.FAILED):
            self.refusal = None
            self.phase = MembershipPhase.JOINING

    def leave(self, reason: str, *, is_closing: bool) -> None:
        self.topics = None
        super().leave(reason, is_closing=is_closing)

    def _leave(self, reason: str, then: MembershipPhase, *, is_closing: bool = False) -> None:
        if self.phase in (MembershipPhase.OUT, MembershipPhase.FAILED):
            self.phase = then
            return
        self._leaving = (reason, then)
        self.phase = MembershipPhase.LEAVING
        if self.settings.instance_id is not None:
            # The instance id stays reserved until the session ends, so that a restart moves no
            # partition (KIP-345).
            self._left()

    def _left(self) -> None:
        self.member_id, self.generation = NO_MEMBER, NO_GENERATION
        _, self.phase = self._leaving
        if self.phase is MembershipPhase.OUT and self.topics is not None:
            # The application subscribed again while the member was leaving.
            self.phase = MembershipPhase.JOINING

    def _changed(self, change: AssignmentChange) -> None:
        if self.phase is MembershipPhase.YIELDING:
            self.phase = MembershipPhase.JOINING
        elif self.phase is MembershipPhase.STABLE and change.revoked:
            self._rejoin_reason = f"{names(change.revoked)} can be given to others"

    # The task's side.

    def advance(self, now_ms: float) -> ClassicRequest | None:
        self._check_silence(now_ms)
        if self.phase is MembershipPhase.STABLE and self._rejoin_reason and not self._is_waiting:
            self._rejoin()
        match self.phase:
            case MembershipPhase.LEAVING:
                return self._leave_request()
            case MembershipPhase.JOINING if not self._is_waiting:
                return self._join_request(now_ms)
            case MembershipPhase.SYNCING if not self.has_to_assign:
                return self._sync_request()
            case MembershipPhase.STABLE | MembershipPhase.YIELDING if (
                now_ms >= self._next_heartbeat_ms
            ):
                self._next_heartbeat_ms = now_ms + self.settings.heartbeat_interval_ms
                return HeartbeatRequest(
                    self.settings.group_id,
                    self.generation,
                    self.member_id,
                    self.settings.instance_id,
                )
        return None

    def _rejoin(self) -> None:
        assert self.topics is not None
        to_revoke = self.owned
        if self._is_cooperative:
            to_revoke = frozenset(one for one in self.owned if one.topic not in self.topics)
        self._note(f"joins again: {self._rejoin_reason}")
        if to_revoke:
            self._offer(change_of(revoked=to_revoke))
            self.phase = MembershipPhase.YIELDING
        else:
            self.phase = MembershipPhase.JOINING

    def _join_request(self, now_ms: float) -> JoinGroupRequest:
        settings = self.settings
        assert self.topics is not None
        self._next_heartbeat_ms = now_ms + settings.heartbeat_interval_ms
        reason, self._rejoin_reason = self._rejoin_reason, None
        owned: list[TopicPartition] = sorted(self.owned)
        generation = self.identity.generation if owned else NO_GENERATION
        offers = [
            JoinGroupRequestProtocol(
                name, one.subscription(self.topics, owned, generation, settings.rack or None)
            )
            for name, one in self._assignors.items()
        ]
        return JoinGroupRequest(
            settings.group_id,
            settings.session_timeout_ms,
            settings.rebalance_timeout_ms,
            self.member_id,
            settings.instance_id,
            PROTOCOL_TYPE,
            offers,
            reason,
        )

    def _sync_request(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            self.settings.group_id,
            self.generation,
            self.member_id,
            self.settings.instance_id,
            PROTOCOL_TYPE,
            self._assignor.name,
            [SyncGroupRequestAssignment(*item) for item in sorted(self._assignments.items())],
        )

    def _leave_request(self) -> LeaveGroupRequest | None:
        if not self.member_id:
            self._left()
            return None
        reason, _ = self._leaving
        return LeaveGroupRequest(
            self.settings.group_id, self.member_id, [Leaving(self.member_id, None, reason)]
        )

    @property
    def has_to_assign(self) -> bool:
        """Whether the group waits for this leader's ``assign``."""
        leadership = self.leadership
        return (
            self.phase is MembershipPhase.SYNCING
            and leadership is not None
            and leadership.has_to_assign
        )

    def assign(self, counts: Mapping[str, int], details: GroupDetails) -> None:
        """Divide the partitions of the group's topics."""
        assert self.leadership is not None
        self._assignments = self.leadership.assign(counts, details)

    def topics_seen(self, counts: Mapping[str, int], now_ms: float) -> None:
        if (
            self.phase is not MembershipPhase.STABLE
            or self.leadership is None
            or self._rejoin_reason
        ):
            return
        if self.leadership.must_assign_again(counts, now_ms):
            self._rejoin_reason = "topics of the group have changed"

    def unanswered(self, request: Any) -> None:
        if isinstance(request, LeaveGroupRequest):
            # The session will time out.
            self._left()
        elif isinstance(request, HeartbeatRequest):
            self._next_heartbeat_ms = 0.0
        elif isinstance(request, JoinGroupRequest):
            self._rejoin_reason = self._rejoin_reason or request.reason

    # Answers.

    def answered(self, request: Any, response: Any, sent_ms: float) -> NextAction:
        code = error_code(response.error_code)
        if isinstance(request, LeaveGroupRequest):
            if code in MOVED:
                return NextAction.ELSEWHERE
            self._left()
            return NextAction.GO_ON
        if isinstance(response, JoinGroupResponse) and code in WITH_MEMBER_ID:
            # Also with MEMBER_ID_REQUIRED (KIP-394): with this id the next join leaves no ghost
            # member, and a member that leaves in between can name itself.
            self.member_id = response.member_id
        if self.phase not in ALIVE:
            return NextAction.GO_ON
        if code is not ErrorCode.NONE:
            return self._refused(request, code, sent_ms)
        self.liveness.contact(sent_ms)
        if isinstance(response, JoinGroupResponse):
            return self._on_joined(response)
        if isinstance(response, SyncGroupResponse):
            return self._on_assigned(response)
        assert isinstance(response, HeartbeatResponse)
        return NextAction.GO_ON

    def _on_joined(self, response: JoinGroupResponse) -> NextAction:
        assignor = self._assignors.get(response.protocol_name or "")
        if assignor is None:
            return self._fail(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group uses {response.protocol_name!r}, which this member has not offered",
            )
        settings = self.settings
        self._assignor = assignor
        self.generation = response.generation_id
        self.identity = GroupIdentity(
            settings.group_id, self.member_id, self.generation, settings.instance_id
        )
        self._assignments = {}
        is_leader = response.leader == self.member_id
        self.leadership = GroupLeadership(response, assignor) if is_leader else None
        self.phase = MembershipPhase.SYNCING
        return NextAction.GO_ON

    def _on_assigned(self, response: SyncGroupResponse) -> NextAction:
        assert self.topics is not None
        try:
            given = self._assignor.on_assignment(bytes(response.assignment), self.generation)
        except RemoteProtocolError as error:
            return self._fail(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the leader has sent no assignment: {error}"
            )
        target = frozenset(one for one in given if one.topic in self.topics)
        self.phase = MembershipPhase.STABLE
        self._assignments = {}
        if self._is_waiting:
            # Before a join the application has no change left to do, so the member is about to
            # leave; if it stays after all, it does not hold this assignment.
            self._rejoin_reason = self._rejoin_reason or "the assignment came during a change"
            return NextAction.GO_ON
        self._note(
            f"generation {self.generation}, member {self.member_id}: {self._assignor.name} "
            f"assigns {names(target)}"
        )
        self._offer(change_of(revoked=self.owned - target, assigned=target - self.owned))
        return NextAction.GO_ON

    def _refused(self, request: Any, code: ErrorCode, sent_ms: float) -> NextAction:
        is_join = isinstance(request, JoinGroupRequest)
        if not is_join and (request.generation_id, request.member_id) != (
            self.generation,
            self.member_id,
        ):
            # The request was sent in an earlier generation.
            return NextAction.GO_ON
        match code:
            case ErrorCode.MEMBER_ID_REQUIRED if is_join:
                self.unanswered(request)
                return NextAction.GO_ON
            case ErrorCode.REBALANCE_IN_PROGRESS:
                # The coordinator says so to living members only.
                self.liveness.contact(sent_ms)
                if self.phase in (MembershipPhase.STABLE, MembershipPhase.SYNCING):
                    self._rejoin_reason = self._rejoin_reason or "the group is rebalancing"
                    self.phase = MembershipPhase.STABLE
                return NextAction.AGAIN if is_join else NextAction.GO_ON
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self._note(f"the coordinator has forgotten the member: {code.text}")
                self._rejoin_reason = self._rejoin_reason or code.text
                self.phase = MembershipPhase.JOINING
                self._lose(keep_member_id=code is ErrorCode.ILLEGAL_GENERATION)
                return NextAction.AGAIN if is_join else NextAction.GO_ON
            case _ if code in MOVED:
                self.unanswered(request)
                return NextAction.ELSEWHERE
            case _ if code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
                self.unanswered(request)
                return NextAction.AGAIN
        return self._fail(code)

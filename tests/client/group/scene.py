"""A member, its application and its coordinator, acted out step by step."""

from __future__ import annotations

from typing import Any, TypeVar

from ottla.client.group.assignors.registry import make_assignors
from ottla.client.group.change import AssignmentChange, MemberSettings, MembershipPhase, NextAction
from ottla.client.group.classic_protocol import ClassicMember
from ottla.client.group.consumer_protocol import ConsumerMember
from ottla.protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    OwnedPartitions,
    write_assignment,
    write_subscription,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Kind = TypeVar("Kind")

SETTINGS = MemberSettings(
    "g",
    session_timeout_ms=10_000,
    heartbeat_interval_ms=1_000,
    rebalance_timeout_ms=60_000,
    max_poll_interval_ms=60_000,
)
STATIC = SETTINGS._replace(instance_id="one")
RESPONSES: dict[type, type] = {
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse,
}


def parts(*numbers: int, topic: str = "t") -> tuple[TopicPartition, ...]:
    """Partitions of one topic."""
    return tuple(TopicPartition(topic, number) for number in numbers)


def assignment(*numbers: int, topic: str = "t") -> bytes:
    """An assignment as a leader sends it."""
    owned = [OwnedPartitions(topic, list(numbers))] if numbers else []
    return write_assignment(ConsumerAssignment(owned), 1)


def subscription(*topics: str) -> bytes:
    """A subscription as another member sends it."""
    return write_subscription(ConsumerSubscription(list(topics)), 1)


class Scene:
    """One member under test. Time advances only by ``wait``. The application polls continuously by
    default."""

    def __init__(self, member: ClassicMember | ConsumerMember) -> None:
        self.member = member
        self.now_ms = 1_000.0

    def wait(self, delay_ms: float) -> None:
        self.now_ms += delay_ms

    def next(self, kind: type[Kind]) -> Kind:
        """The next request, which has to be of that kind."""
        request = self.member.advance(self.now_ms)
        assert isinstance(request, kind), f"{request} while {self.member.phase}"
        return request

    def is_idle(self) -> bool:
        return self.member.advance(self.now_ms) is None

    def answer(self, request: Any, code: ErrorCode = ErrorCode.NONE, **fields: Any) -> NextAction:
        """The coordinator's answer."""
        response = RESPONSES[type(request)](error_code=code.value, **fields)
        return self.member.answered(request, response, self.now_ms)

    def apply(self) -> AssignmentChange:
        """The application carries out what there is to do."""
        change = self.member.begin_change()
        assert change is not None
        self.member.end_change()
        return change


class ClassicScene(Scene):
    """A classic member with those assignors, subscribed to ``t``."""

    member: ClassicMember

    def __init__(self, *assignors: str, settings: MemberSettings = SETTINGS) -> None:
        super().__init__(ClassicMember(settings, make_assignors(assignors or ("range",))))
        self.name = assignors[0] if assignors else "range"
        self.member.liveness.enter_poll()
        self.member.subscribe(["t"], self.now_ms)
        self.member.liveness.enter_poll()

    def join(self, generation: int = 1, **fields: Any) -> JoinGroupRequest:
        """Join as a follower."""
        request = self.next(JoinGroupRequest)
        found: dict[str, Any] = {
            "generation_id": generation,
            "protocol_name": self.name,
            "member_id": request.member_id or "me",
            "leader": "other",
            **fields,
        }
        assert self.answer(request, **found) is NextAction.GO_ON
        return request

    def sync(self, *numbers: int) -> SyncGroupRequest:
        """Be assigned these partitions of ``t``."""
        request = self.next(SyncGroupRequest)
        assert self.answer(request, assignment=assignment(*numbers)) is NextAction.GO_ON
        return request

    def settle(self, *numbers: int, generation: int = 1) -> None:
        """Be a member that holds these."""
        self.join(generation)
        self.sync(*numbers)
        if self.member.change is not None:
            self.apply()
        assert self.member.phase is MembershipPhase.STABLE

    def lead(self, *others: bytes, generation: int = 1, **fields: Any) -> JoinGroupRequest:
        """Join as the leader of itself and others with these subscriptions."""
        members = [JoinGroupResponseMember("me", None, subscription("t"))]
        members += [
            JoinGroupResponseMember(f"other-{index}", None, metadata)
            for index, metadata in enumerate(others)
        ]
        return self.join(generation, member_id="me", leader="me", members=members, **fields)

    def heartbeat(self, code: ErrorCode = ErrorCode.NONE) -> NextAction:
        """Send one more heartbeat, with this answer."""
        self.wait(SETTINGS.heartbeat_interval_ms)
        return self.answer(self.next(HeartbeatRequest), code)


class ConsumerScene(Scene):
    """A member of the newer protocol, subscribed to ``t``, whose id is sixteen ones."""

    member: ConsumerMember
    TOPIC_ID = b"\1" * 16

    def __init__(self, settings: MemberSettings = SETTINGS) -> None:
        super().__init__(ConsumerMember(settings, "me", None))
        self.member.subscribe(["t"], self.now_ms)
        self.member.liveness.enter_poll()

    def beat(
        self,
        code: ErrorCode = ErrorCode.NONE,
        *,
        epoch: int = 1,
        given: tuple[int, ...] | None = None,
        topic_id: bytes = TOPIC_ID,
    ) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat, answered with that epoch and assignment."""
        request = self.next(ConsumerGroupHeartbeatRequest)
        found = None if given is None else Assignment([TopicPartitions(topic_id, list(given))])
        self.answer(
            request,
            code,
            member_id="me",
            member_epoch=epoch,
            heartbeat_interval_ms=1_000,
            assignment=found,
        )
        return request

    def settle(self, *numbers: int) -> None:
        """Make the member own these partitions and report them."""
        self.beat(given=numbers)
        self.member.name_topics({self.TOPIC_ID: "t"})
        assert self.is_idle()
        self.apply()
        self.beat()

"""Members under any order of events: answers of all kinds, time, and what applications do."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.group.assignors.assignor import NO_DETAILS
from ottla.client.group.change import MembershipPhase
from ottla.client.group.classic_protocol import ClassicMember
from ottla.client.group.consumer_protocol import ConsumerMember
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponseMember
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from tests.client.group.scene import (
    ClassicScene,
    ConsumerScene,
    Scene,
    assignment,
    subscription,
)

CODES = [
    ErrorCode.NONE,
    ErrorCode.NONE,
    ErrorCode.NONE,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [*["answer"] * 3, "lose answer", "begin", "end", "poll", "work", "wait", "leave"]
        ),
        st.sampled_from(CODES),
        st.sets(st.integers(0, 3)),
        st.sampled_from([0.0, 10.0, 1_000.0, 30_000.0, 60_000.0]),
    ),
    max_size=60,
)


class History:
    """Plays the coordinator and the application against one member, and watches."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.member = scene.member
        self.generation = 0
        self.is_applying = False

    def play(self, steps: list[tuple[str, ErrorCode, set[int], float]]) -> None:
        for what, code, numbers, delay_ms in steps:
            self._step(what, code, numbers, delay_ms)
            self.check()

    def _step(self, what: str, code: ErrorCode, numbers: set[int], delay_ms: float) -> None:
        member, scene = self.member, self.scene
        match what:
            case "answer" | "lose answer":
                self.talk(code, numbers, is_lost=what == "lose answer")
            case "begin" if not self.is_applying:
                change = member.begin_change()
                self.is_applying = change is not None
                if change is not None:
                    gone = {*change.lost, *change.revoked}
                    assert gone <= member.owned
                    assert not set(change.assigned) & (member.owned - gone)
            case "end" if self.is_applying:
                member.end_change()
                self.is_applying = False
            case "poll":
                member.liveness.enter_poll()
            case "work":
                member.liveness.exit_poll(scene.now_ms)
            case "wait":
                scene.wait(delay_ms)
            case "leave" if not self.is_applying:
                if member.leaving_change() is not None:
                    # The coordinator acts while the application gives its partitions up.
                    self.talk(code, numbers)
                    member.end_change()
                member.leave("enough", is_closing=False)
                assert member.owned == frozenset()
                member.subscribe(["t"], scene.now_ms)

    def talk(self, code: ErrorCode, numbers: set[int], *, is_lost: bool = False) -> None:
        """Send one request, if there is one, and handle its outcome."""
        member, scene = self.member, self.scene
        if isinstance(member, ClassicMember) and member.has_to_assign:
            member.assign({"t": 4}, NO_DETAILS)
        if isinstance(member, ConsumerMember):
            member.name_topics({ConsumerScene.TOPIC_ID: "t"})
        request = self._ask()
        if request is None:
            return
        self.check_request(request)
        if is_lost:
            member.unanswered(request)
            return
        scene.answer(request, code, **self._fields(request, code, numbers))

    def _ask(self) -> Any:
        """The next request. Who has none is not asked again and again in the same moment: the
        task would never sleep."""
        for _ in range(3):
            request = self.member.advance(self.scene.now_ms)
            next_ms = self.member.next_ms()
            if request is not None or next_ms is None or next_ms > self.scene.now_ms:
                return request
        raise AssertionError("it is always due and never has anything to ask")

    def _fields(self, request: Any, code: ErrorCode, numbers: set[int]) -> dict[str, Any]:
        if isinstance(request, JoinGroupRequest):
            self.generation += 1
            leads = bool(numbers)
            members = [JoinGroupResponseMember("me", None, subscription("t"))] if leads else []
            return {
                "generation_id": self.generation,
                "protocol_name": request.protocols[0].name,
                "member_id": "me",
                "leader": "me" if leads else "other",
                "members": members,
            }
        if isinstance(request, SyncGroupRequest):
            return {"assignment": assignment(*sorted(numbers)) if code is ErrorCode.NONE else b""}
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self.generation += 1
            given = [TopicPartitions(ConsumerScene.TOPIC_ID, sorted(numbers))]
            return {
                "member_id": request.member_id,
                "member_epoch": self.generation,
                "heartbeat_interval_ms": 1_000,
                "assignment": Assignment(given) if numbers else None,
            }
        return {}

    def check_request(self, request: Any) -> None:
        """Check invariants of every request."""
        member = self.member
        joins = isinstance(request, JoinGroupRequest) or (
            isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch == 0
        )
        if joins:
            assert member.change is None, "it joins before the application has done its part"
            assert not self.is_applying
        if isinstance(request, JoinGroupRequest) and request.protocols[0].name == "range":
            assert not member.owned, "somebody else is given what is still read"
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch == 0:
            assert request.topic_partitions == []
        if isinstance(request, SyncGroupRequest | LeaveGroupRequest):
            assert member.member_id

    def check(self) -> None:
        member = self.member
        assert (member.phase is MembershipPhase.FAILED) == (member.refusal is not None)
        if member.owned and member.phase is MembershipPhase.STABLE and member.change is None:
            assert member.identity.generation == member.generation

    def settle(self) -> MembershipPhase:
        """All goes well from now on; where that leads to."""
        member = self.member
        if self.is_applying:
            member.end_change()
            self.is_applying = False
        member.liveness.enter_poll()
        member.subscribe(["t"], self.scene.now_ms)
        for _ in range(12):
            if member.change is not None:
                self.scene.apply()
            self.talk(ErrorCode.NONE, {1, 2})
            self.check()
            self.scene.wait(1_000)
        assert member.change is None
        if isinstance(member, ConsumerMember):
            assert {where.partition for where in member.owned} == {1, 2}
        return member.phase


@settings(max_examples=100, deadline=None)
@given(STEPS, st.sampled_from(["range", "cooperative-sticky"]))
def test_a_classic_member_keeps_to_the_rules_and_finds_its_way_back(
    steps: list[tuple[str, ErrorCode, set[int], float]], assignor: str
) -> None:
    """Consumers that hang are the loudest complaint there is, and zombies the worst."""
    history = History(ClassicScene(assignor))
    history.play(steps)

    assert history.settle() is MembershipPhase.STABLE


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_member_of_the_newer_protocol_does_so_too(
    steps: list[tuple[str, ErrorCode, set[int], float]],
) -> None:
    """The same application, another talk with the coordinator."""
    history = History(ConsumerScene())
    history.play(steps)

    assert history.settle() is MembershipPhase.STABLE

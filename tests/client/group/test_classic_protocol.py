"""A member of a classic group, without a group."""

from __future__ import annotations

import pytest

from ottla.client.group.assignors.assignor import NO_DETAILS
from ottla.client.group.change import AssignmentChange, MembershipPhase, NextAction
from ottla.client.group.identity import GroupIdentity
from ottla.protocol.consumer_protocol import read_subscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from tests.client.group.scene import (
    SETTINGS,
    STATIC,
    ClassicScene,
    assignment,
    parts,
    subscription,
)

COOPERATIVE = "cooperative-sticky"


def test_a_member_that_is_given_an_id_joins_again_with_it_at_once() -> None:
    """KIP-394: without it every join that is retried leaves a ghost in the group."""
    scene = ClassicScene()
    first = scene.next(JoinGroupRequest)
    verdict = scene.answer(first, ErrorCode.MEMBER_ID_REQUIRED, member_id="me")
    second = scene.next(JoinGroupRequest)

    assert (first.member_id, second.member_id) == ("", "me")
    assert verdict is NextAction.GO_ON
    assert second.reason == first.reason


def test_an_assignment_is_the_applications_to_carry_out() -> None:
    """Partitions that appeared behind its back could be read before its listener ran."""
    scene = ClassicScene()
    scene.join()
    scene.sync(0, 1)

    assert scene.member.owned == frozenset()
    assert scene.apply() == AssignmentChange(assigned=parts(0, 1))
    assert scene.member.owned == frozenset(parts(0, 1))
    assert scene.member.identity == GroupIdentity("g", "me", 1)


def test_an_assignment_that_comes_while_the_application_leaves_changes_nothing() -> None:
    """A cooperative member gives up what it holds at the end, and the answer may be faster."""
    scene = ClassicScene(COOPERATIVE)
    scene.settle(0, 1)
    scene.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.join(generation=2)
    assert scene.member.leaving_change() == AssignmentChange(revoked=parts(0, 1))
    scene.sync(0, 1, 2)

    assert scene.is_idle()
    scene.member.end_change()
    scene.member.leave("the consumer is closed", is_closing=True)
    assert scene.member.owned == frozenset()
    assert scene.next(LeaveGroupRequest).members[0].member_id == "me"


def test_topics_that_are_not_wanted_any_more_are_not_taken() -> None:
    """The subscription has changed while the leader was dividing."""
    scene = ClassicScene()
    scene.join()
    scene.member.subscribe(["other"], scene.now_ms)
    scene.sync(0, 1)

    assert scene.member.change is None
    scene.next(JoinGroupRequest)


def test_the_leader_assigns_for_all_members() -> None:
    """Only the leader assigns: its sync without assignments would leave every member with none."""
    scene = ClassicScene()
    scene.lead(subscription("t", "u"))
    leadership = scene.member.leadership
    assert leadership is not None

    assert leadership.topics == {"t", "u"}
    assert scene.member.has_to_assign
    assert scene.is_idle()
    scene.member.assign({"t": 4}, NO_DETAILS)
    request = scene.next(SyncGroupRequest)
    given = {one.member_id: one.assignment for one in request.assignments}
    assert given == {"me": assignment(0, 1), "other-0": assignment(2, 3)}


def test_everything_is_given_up_before_an_eager_rebalance() -> None:
    """Another member reads these partitions as soon as the group has agreed."""
    scene = ClassicScene()
    scene.settle(0, 1)
    scene.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    assert scene.is_idle()
    assert scene.member.phase is MembershipPhase.YIELDING
    # A slow listener is no dead member.
    assert scene.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS) is NextAction.GO_ON
    assert scene.apply() == AssignmentChange(revoked=parts(0, 1))
    assert scene.next(JoinGroupRequest).member_id == "me"


def test_a_cooperative_member_joins_with_all_it_has_and_gives_up_what_is_to_move() -> None:
    """KIP-429: what stays is read on, and what moves is free for one generation."""
    scene = ClassicScene(COOPERATIVE)
    scene.settle(0, 1, 2)
    scene.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    request = scene.join(generation=2)
    said, _ = read_subscription(request.protocols[0].metadata)
    scene.sync(0, 3)

    assert [(one.topic, one.partitions) for one in said.owned_partitions] == [("t", [0, 1, 2])]
    assert said.generation_id == 1
    assert scene.apply() == AssignmentChange(revoked=parts(1, 2), assigned=parts(3))
    again = scene.next(JoinGroupRequest)
    said, _ = read_subscription(again.protocols[0].metadata)
    assert [(one.topic, one.partitions) for one in said.owned_partitions] == [("t", [0, 3])]
    assert said.generation_id == 2


def test_a_cooperative_member_keeps_what_it_gets_again() -> None:
    """No listener is called for nothing."""
    scene = ClassicScene(COOPERATIVE)
    scene.settle(0, 1)
    scene.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    scene.join(generation=2)
    scene.sync(0, 1)

    assert scene.member.change is None
    assert scene.is_idle()
    assert scene.member.phase is MembershipPhase.STABLE


def test_a_member_that_offers_an_eager_strategy_is_eager() -> None:
    """The group may choose either; Java's members decide likewise."""
    scene = ClassicScene("range", COOPERATIVE)
    scene.settle(0)
    scene.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    assert scene.is_idle()
    assert scene.apply() == AssignmentChange(revoked=parts(0))


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")],
)
def test_a_forgotten_member_has_lost_everything_before_it_joins_again(
    code: ErrorCode, member_id: str
) -> None:
    """Others may read its partitions already; it must not commit for them (hazard G-02)."""
    scene = ClassicScene(COOPERATIVE)
    scene.settle(0, 1)
    scene.heartbeat(code)

    assert scene.is_idle()
    # A commit with the old identity is refused; one without an identity would be accepted.
    assert scene.member.identity == GroupIdentity("g", "me", 1)
    assert scene.apply() == AssignmentChange(lost=parts(0, 1))
    request = scene.next(JoinGroupRequest)
    said, _ = read_subscription(request.protocols[0].metadata)
    assert request.member_id == member_id
    assert said.owned_partitions == []


def test_what_is_assigned_while_the_coordinator_forgets_is_lost_too() -> None:
    """1. The application is in its listener. 2. A heartbeat is answered with UNKNOWN_MEMBER_ID.
    3. The listener returns: what it was given then is not ours."""
    scene = ClassicScene()
    scene.join()
    scene.sync(0)
    scene.member.begin_change()
    scene.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)

    assert scene.is_idle()
    scene.member.end_change()
    assert scene.apply() == AssignmentChange(lost=parts(0))
    scene.next(JoinGroupRequest)


def test_what_waits_to_be_assigned_is_dropped_when_the_coordinator_forgets() -> None:
    """The application never had these partitions, so there is nothing to lose."""
    scene = ClassicScene()
    scene.join()
    scene.sync(0)
    scene.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)

    assert scene.member.change is None
    scene.next(JoinGroupRequest)


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID])
def test_an_answer_to_an_earlier_generation_changes_nothing(code: ErrorCode) -> None:
    """The answer describes an identity that this member no longer has."""
    scene = ClassicScene()
    scene.settle(0)
    scene.wait(SETTINGS.heartbeat_interval_ms)
    old = scene.next(HeartbeatRequest)
    scene.member.generation = 2

    assert scene.answer(old, code) is NextAction.GO_ON
    assert scene.member.phase is MembershipPhase.STABLE
    assert scene.member.change is None
    assert scene.is_idle()


def test_a_sync_in_a_rebalance_joins_again_as_the_same_member() -> None:
    """Another member has joined between this member's join and its sync."""
    scene = ClassicScene()
    scene.join()
    scene.answer(scene.next(SyncGroupRequest), ErrorCode.REBALANCE_IN_PROGRESS)

    assert scene.next(JoinGroupRequest).member_id == "me"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ],
)
def test_a_refused_member_says_why_and_does_not_try_for_ever(code: ErrorCode) -> None:
    """Two processes with one instance id would throw each other out for ever (hazard G-07)."""
    scene = ClassicScene(settings=STATIC)
    scene.settle(0)
    scene.heartbeat(code)

    assert scene.member.refusal == (code, code.text)
    assert scene.apply() == AssignmentChange(lost=parts(0))
    scene.wait(100_000)
    assert scene.is_idle()
    # The application may know better.
    scene.member.subscribe(["t"], scene.now_ms)
    scene.next(JoinGroupRequest)
    assert scene.member.refusal != (code, code.text)


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest])
def test_every_error_leads_somewhere(kind: type, code: ErrorCode) -> None:
    """A member that makes no progress is the loudest complaint about consumers."""
    scene = ClassicScene()
    if kind is not JoinGroupRequest:
        scene.join()
    if kind is HeartbeatRequest:
        scene.sync(0)
        scene.apply()
        scene.wait(SETTINGS.heartbeat_interval_ms)
    scene.answer(scene.next(kind), code)
    if scene.member.phase is MembershipPhase.FAILED:
        assert not code.retriable
        assert scene.member.refusal is not None
        return
    if scene.member.change is not None:
        scene.apply()
    scene.wait(SETTINGS.heartbeat_interval_ms)
    assert scene.member.advance(scene.now_ms) is not None


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moves_is_no_rebalance(code: ErrorCode) -> None:
    """Its successor knows the group (hazard G-08)."""
    scene = ClassicScene()
    scene.settle(0)

    assert scene.heartbeat(code) is NextAction.ELSEWHERE
    scene.next(HeartbeatRequest)
    assert scene.member.owned == frozenset(parts(0))


def test_a_lost_sync_is_asked_again() -> None:
    """The generation is as good as before, and its assignment waits."""
    scene = ClassicScene()
    scene.join()
    request = scene.next(SyncGroupRequest)
    scene.member.unanswered(request)

    assert scene.next(SyncGroupRequest).generation_id == 1


def test_a_group_that_uses_another_strategy_is_refused() -> None:
    """Reading its assignment would be guessing."""
    scene = ClassicScene()
    scene.join(protocol_name="mine")

    assert scene.member.phase is MembershipPhase.FAILED
    assert scene.member.refusal is not None
    assert "mine" in scene.member.refusal.text


def test_an_assignment_that_is_none_is_refused() -> None:
    """The leader is another program; what it sends may be anything."""
    scene = ClassicScene()
    scene.join()
    scene.answer(scene.next(SyncGroupRequest), assignment=b"\0")

    assert scene.member.phase is MembershipPhase.FAILED

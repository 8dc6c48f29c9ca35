"""How a member of the classic protocol stays in its group, leaves, and notices new topics."""

from __future__ import annotations

from ottla.client.group.assignors.assignor import NO_DETAILS
from ottla.client.group.change import AssignmentChange, MembershipPhase, NextAction
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
)

COOPERATIVE = "cooperative-sticky"


def test_silence_ends_the_membership_until_the_application_polls() -> None:
    """KIP-62: its partitions go to a member that polls. The log says what to do."""
    scene = ClassicScene()
    scene.settle(0)
    scene.member.liveness.exit_poll(scene.now_ms)
    scene.wait(SETTINGS.max_poll_interval_ms)
    request = scene.next(LeaveGroupRequest)
    warnings = [note.text for note in scene.member.notes if note.is_warning]
    scene.answer(request)

    assert request.members[0].member_id == "me"
    assert "max_poll_interval_ms" in warnings[0]
    assert scene.is_idle()
    scene.member.liveness.enter_poll()
    assert scene.is_idle()
    assert scene.apply() == AssignmentChange(lost=parts(0))
    assert scene.next(JoinGroupRequest).member_id == ""


def test_heartbeats_go_on_while_the_application_works() -> None:
    """Long work is fine, up to the limit."""
    scene = ClassicScene()
    scene.settle(0)
    scene.member.liveness.exit_poll(scene.now_ms)
    for _ in range(SETTINGS.max_poll_interval_ms // SETTINGS.heartbeat_interval_ms - 1):
        assert scene.heartbeat() is NextAction.GO_ON

    assert scene.member.phase is MembershipPhase.STABLE


def test_a_static_member_does_not_say_that_it_leaves() -> None:
    """KIP-345: when it is back within its session, nothing has moved."""
    scene = ClassicScene(settings=STATIC)
    scene.settle(0)
    assert scene.member.leaving_change() == AssignmentChange(revoked=parts(0))
    scene.member.end_change()
    scene.member.leave("closed", is_closing=True)

    assert scene.member.phase is MembershipPhase.OUT
    assert scene.is_idle()


def test_a_member_that_leaves_while_it_joins_says_so_with_the_id_it_was_given() -> None:
    """A member that is left in the group costs it a session timeout."""
    scene = ClassicScene()
    scene.answer(scene.next(JoinGroupRequest), ErrorCode.MEMBER_ID_REQUIRED, member_id="me")
    request = scene.next(JoinGroupRequest)
    assert scene.member.leaving_change() is None
    scene.member.leave("closed", is_closing=True)
    scene.answer(request, generation_id=3, member_id="me", leader="me", protocol_name="range")

    assert scene.next(LeaveGroupRequest).member_id == "me"


def test_a_member_that_never_had_an_id_has_nothing_to_leave() -> None:
    """A LeaveGroup request needs a member id to name."""
    scene = ClassicScene()
    scene.next(JoinGroupRequest)
    scene.member.leave("closed", is_closing=True)

    assert scene.is_idle()
    assert scene.member.phase is MembershipPhase.OUT


def test_a_subscription_while_it_leaves_joins_afterwards() -> None:
    """Leaving must not take the later wish along."""
    scene = ClassicScene()
    scene.settle(0)
    scene.member.leaving_change()
    scene.member.end_change()
    scene.member.leave("unsubscribed", is_closing=False)
    request = scene.next(LeaveGroupRequest)
    scene.member.subscribe(["t"], scene.now_ms)
    scene.answer(request)

    assert scene.next(JoinGroupRequest).member_id == ""


def test_partitions_that_are_added_are_divided_at_once() -> None:
    """Only the leader watches topics; without it no member would read the new partitions."""
    scene = ClassicScene()
    scene.lead()
    scene.member.assign({"t": 2}, NO_DETAILS)
    scene.sync(0, 1)
    scene.apply()
    scene.member.topics_seen({"t": 2}, scene.now_ms)
    assert scene.is_idle()

    scene.member.topics_seen({"t": 3}, scene.now_ms)
    assert scene.is_idle()
    assert scene.apply() == AssignmentChange(revoked=parts(0, 1))
    scene.next(JoinGroupRequest)


def test_a_topic_has_to_be_gone_for_a_while() -> None:
    """A broker that has just started denies topics that it does not know yet."""
    scene = ClassicScene()
    scene.lead()
    scene.member.assign({"t": 2}, NO_DETAILS)
    scene.sync(0, 1)
    scene.apply()
    for seen in ({}, {"t": 2}, {}):
        scene.member.topics_seen(seen, scene.now_ms)
        assert scene.member.change is None
        assert scene.heartbeat() is NextAction.GO_ON
    scene.wait(5_000)
    scene.member.topics_seen({}, scene.now_ms)
    scene.member.advance(scene.now_ms)

    assert scene.apply() == AssignmentChange(revoked=parts(0, 1))


def test_a_follower_leaves_topics_to_its_leader() -> None:
    """Otherwise every member would begin the same rebalance."""
    scene = ClassicScene()
    scene.settle(0)
    scene.member.topics_seen({"t": 99}, scene.now_ms)

    assert scene.is_idle()


def test_a_static_leader_that_is_back_does_not_assign_but_watches() -> None:
    """KIP-814: a new assignment would move partitions without need."""
    scene = ClassicScene(settings=STATIC)
    scene.lead(skip_assignment=True)
    assert not scene.member.has_to_assign
    assert scene.sync(0).assignments == []
    scene.apply()
    scene.member.topics_seen({"t": 1}, scene.now_ms)
    assert scene.is_idle()

    scene.member.topics_seen({"t": 2}, scene.now_ms)
    scene.member.advance(scene.now_ms)
    assert scene.member.change is not None


def test_a_member_without_answers_is_in_doubt_after_its_session() -> None:
    """The coordinator may have given its partitions away: it must not hand out more of them."""
    scene = ClassicScene()
    scene.settle(0)
    liveness = scene.member.liveness
    scene.wait(SETTINGS.session_timeout_ms - 1)
    assert not liveness.is_doubtful(scene.now_ms)
    scene.wait(1)
    assert liveness.is_doubtful(scene.now_ms)

    scene.answer(scene.next(HeartbeatRequest))
    assert not liveness.is_doubtful(scene.now_ms)


def test_another_subscription_joins_again() -> None:
    """Cooperatively, only what is not wanted any more is given up for it."""
    scene = ClassicScene(COOPERATIVE)
    scene.member.subscribe(["t", "u"], scene.now_ms)
    scene.join()
    request = scene.next(SyncGroupRequest)
    scene.answer(request, assignment=assignment(0))
    scene.apply()
    scene.member.subscribe(["u"], scene.now_ms)

    assert scene.is_idle()
    assert scene.apply() == AssignmentChange(revoked=parts(0))
    scene.next(JoinGroupRequest)


def test_the_same_subscription_is_no_rebalance() -> None:
    """A pattern is looked up again and again."""
    scene = ClassicScene()
    scene.settle(0)
    scene.member.subscribe(["t", "t"], scene.now_ms)

    assert scene.is_idle()

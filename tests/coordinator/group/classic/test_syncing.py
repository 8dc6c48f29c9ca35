"""SyncGroup: an assignment is handed out when it is stored, to those it was made for."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.common.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.group.classic.scene import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Scene,
    Wish,
    join_request,
)


def test_every_member_gets_its_part() -> None:
    """The leader assigns, the coordinator only passes on."""
    scene = Scene()
    joined = scene.form(Wish(), Wish())

    told = scene.settle(*joined)

    assert [one.assignment for one in told] == [one.member_id.encode() for one in joined]
    assert {(one.protocol_type, one.protocol_name) for one in told} == {("consumer", "range")}


def test_an_assignment_is_handed_out_when_it_is_committed() -> None:
    """A coordinator that takes over must know what the members were told (G-03)."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())
    scene.holds_appends = True
    early = scene.sync(follower)
    scene.sync(leader, {follower.member_id: b"part"})
    assert early not in scene.answers
    late = scene.sync(follower)

    scene.commit_all()

    assert scene.told(early).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.told(late).assignment == b"part"
    assert scene.state == "Stable"


def test_a_repeated_sync_gets_the_same_assignment() -> None:
    """The first answer may have been lost."""
    scene = Scene()
    joined = scene.form(Wish(), Wish())
    (first, second) = scene.settle(*joined)

    assert scene.told(scene.sync(joined[0], {"x": b"other"})) == first
    assert scene.told(scene.sync(joined[1])) == second


def test_a_leader_that_repeats_itself_is_written_once() -> None:
    """The log must not say something else than the members were told."""
    scene = Scene()
    (leader,) = scene.form(Wish())
    scene.holds_appends = True

    scene.sync(leader, {leader.member_id: b"first"})
    again = scene.sync(leader, {leader.member_id: b"second"})
    assert len(scene.open) == 1
    scene.commit_all()

    assert scene.told(again).assignment == b"first"


def test_who_is_not_mentioned_gets_nothing() -> None:
    """More members than partitions (ARC-11), or a leader that knows nothing of it."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())
    ticket = scene.sync(follower)

    scene.sync(leader, {leader.member_id: b"all"})

    assert scene.told(ticket).assignment == b""
    assert scene.told(ticket).error_code == ErrorCode.NONE


def test_a_failed_write_starts_another_round() -> None:
    """And the members hear of it, in place of waiting for ever."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())
    scene.holds_appends = True
    tickets = [scene.sync(follower), scene.sync(leader, {leader.member_id: b"x"})]

    scene.fail_one(ErrorCode.NOT_ENOUGH_REPLICAS)

    errors = {scene.told(ticket).error_code for ticket in tickets}
    assert errors == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert scene.state == "PreparingRebalance"


def test_a_failed_write_of_an_earlier_generation_is_nobodys_business() -> None:
    """The group is somewhere else already."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())
    scene.holds_appends = True
    scene.sync(leader, {leader.member_id: b"x"})
    scene.ask(join_request(Wish(member_id=follower.member_id, topics=("u",))))
    ticket = scene.ask(join_request(Wish(member_id=leader.member_id)))
    assert scene.told(ticket).generation_id == 2

    scene.fail_one()

    assert scene.state == "CompletingRebalance"


def test_members_that_waited_too_long_come_again_in_the_same_generation() -> None:
    """The outcome is open; when it comes it is good for all who wait then."""
    scene = Scene()
    (leader,) = scene.form(Wish())
    scene.holds_appends = True
    first = scene.sync(leader, {leader.member_id: b"x"})

    scene.overdue_all()
    assert scene.told(first).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.answer(join_request(Wish(member_id=leader.member_id))) == leader
    second = scene.sync(leader, {leader.member_id: b"y"})
    scene.commit_all()

    assert scene.told(second).assignment == b"x"


def test_a_round_calls_back_who_waits_for_an_assignment() -> None:
    """What the leader is about to bring is for members that are no more."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())
    ticket = scene.sync(follower)

    scene.ask(join_request(Wish(member_id=leader.member_id, topics=("u",))))

    assert scene.told(ticket).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (SyncGroupRequest("", 1, "x"), ErrorCode.INVALID_GROUP_ID),
        (SyncGroupRequest("other", 1, "x"), ErrorCode.UNKNOWN_MEMBER_ID),
        (SyncGroupRequest(GROUP, 1, "x"), ErrorCode.UNKNOWN_MEMBER_ID),
        (SyncGroupRequest(GROUP, 2, "client-id1"), ErrorCode.ILLEGAL_GENERATION),
        (SyncGroupRequest(GROUP, 0, "client-id1"), ErrorCode.ILLEGAL_GENERATION),
        (
            SyncGroupRequest(GROUP, 1, "client-id1", None, "connect", "range"),
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        (
            SyncGroupRequest(GROUP, 1, "client-id1", None, "consumer", "sticky"),
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        (SyncGroupRequest(GROUP, 1, "client-id1", None, "consumer", "range"), ErrorCode.NONE),
    ],
)
def test_refused_syncs_get_the_error_codes_of_kafka(
    request_: SyncGroupRequest, error: ErrorCode
) -> None:
    """Clients decide by the code whether to join again and with which id (KIP-559)."""
    scene = Scene()
    scene.stable(Wish())

    assert scene.answer(request_, 5).error_code == error


def test_during_a_round_sync_says_so() -> None:
    """An empty group answers that the member is unknown."""
    scene = Scene()
    leader, follower = scene.stable(Wish(), Wish())
    scene.ask(join_request(Wish(member_id=leader.member_id)))

    assert scene.told(scene.sync(follower)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    scene.advance(REBALANCE_MS * 3)
    assert scene.state == "Empty"
    assert scene.told(scene.sync(follower)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("leader_syncs", [True, False])
def test_a_member_that_never_syncs_is_removed(leader_syncs: bool) -> None:
    """KAFKA-12890: the others would wait for its partitions, or for its assignment, for ever."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())
    good, bad = (leader, follower) if leader_syncs else (follower, leader)
    ticket = scene.sync(good, {leader.member_id: b"x"})

    for _ in range(REBALANCE_MS // 5_000):
        scene.heartbeat(good)
        scene.heartbeat(bad)
        scene.advance(5_000)

    assert scene.heartbeat(bad) == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat(good) == ErrorCode.REBALANCE_IN_PROGRESS
    assert ticket in scene.answers


def test_an_assignment_that_cannot_be_stored_is_refused_to_the_leader() -> None:
    """KAFKA-13998, G-10: the leader gets the error, before any state has changed."""
    scene = Scene(GroupSettings(initial_rebalance_delay_ms=DELAY_MS, max_record_bytes=10_000))
    leader, follower = scene.form(Wish(), Wish())
    waiting = scene.sync(follower)

    ticket = scene.sync(leader, {leader.member_id: bytes(10_000)})

    assert scene.told(ticket).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert scene.told(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.open == []
    again = [scene.join(Wish(member_id=one.member_id)) for one in (leader, follower)]
    scene.settle(*[scene.told(one) for one in again])
    assert scene.state == "Stable"


def test_sessions_go_on_from_the_answer() -> None:
    """KAFKA-9752: while a member waits here its silence says nothing, afterwards it does."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())
    scene.sync(follower)
    for _ in range(4):
        scene.advance(SESSION_MS - 1)
        assert scene.heartbeat(leader) == ErrorCode.NONE

    scene.sync(leader, {})
    scene.advance(SESSION_MS - 1)
    assert scene.heartbeat(follower) == ErrorCode.NONE
    scene.advance(SESSION_MS)

    assert scene.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID

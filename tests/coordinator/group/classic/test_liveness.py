"""Which members are alive, which are gone, and that no state waits for ever (hazard G-06)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.deadlines import Deadlines
from ottla.coordinator.effects import Moment
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coordinator.group.classic.scene import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Scene,
    Wish,
    caller,
    join_request,
)

if TYPE_CHECKING:
    from collections.abc import Hashable


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (HeartbeatRequest("", 1, "x"), ErrorCode.INVALID_GROUP_ID),
        (HeartbeatRequest("other", 1, "x"), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest(GROUP, 1, "x"), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest(GROUP, 0, "client-id1"), ErrorCode.ILLEGAL_GENERATION),
        (HeartbeatRequest(GROUP, 2, "client-id1"), ErrorCode.ILLEGAL_GENERATION),
        (HeartbeatRequest(GROUP, 1, "client-id1"), ErrorCode.NONE),
        (HeartbeatRequest(GROUP, 1, "client-id1", "a"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_heartbeats_are_answered_as_by_kafka(request_: HeartbeatRequest, error: ErrorCode) -> None:
    """Clients decide by the code whether to join again, and as whom."""
    scene = Scene()
    scene.stable(Wish())

    assert scene.answer(request_, 4).error_code == error


def test_heartbeats_are_welcome_before_the_assignment() -> None:
    """Clients begin when they have joined; a refusal would send them round in circles."""
    scene = Scene()
    (leader,) = scene.form(Wish())

    assert scene.state == "CompletingRebalance"
    assert scene.heartbeat(leader) == ErrorCode.NONE


def test_a_silent_member_goes_with_its_session_and_not_before() -> None:
    """Its partitions are for the others then."""
    scene = Scene()
    good, silent = scene.stable(Wish(), Wish())
    scene.advance(SESSION_MS - 1)
    assert scene.heartbeat(good) == ErrorCode.NONE
    assert scene.state == "Stable"

    scene.advance(1)

    assert scene.heartbeat(good) == ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.heartbeat(silent) == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_for_ever() -> None:
    """The timer that stood when the session began does not count any more."""
    scene = Scene()
    (member,) = scene.stable(Wish())

    for _ in range(50):
        scene.advance(SESSION_MS - 1)
        assert scene.heartbeat(member) == ErrorCode.NONE

    assert scene.group.generation.generation_id == 1


def test_a_shorter_session_timeout_counts_at_once() -> None:
    """The timer is still set to the end of the longer timeout."""
    scene = Scene()
    (member,) = scene.stable(Wish(session_ms=600_000))
    told = scene.told(scene.ask(join_request(Wish(member_id=member.member_id))))
    scene.settle(told)

    scene.advance(SESSION_MS)

    assert scene.state == "Empty"


def test_a_commit_is_a_sign_of_life() -> None:
    """A consumer that only commits, in a long round of its own, is there."""
    scene = Scene()
    (member,) = scene.stable(Wish())

    for _ in range(3):
        scene.advance(SESSION_MS - 1)
        scene.scope.moment = scene.moment
        error = scene.group.check_commit(member.member_id, None, 1, is_transactional=False)
        assert error is ErrorCode.NONE

    assert scene.state == "Stable"


class CountingDeadlines(Deadlines[tuple[str, "Hashable"]]):
    """How often a timer was set."""

    def __init__(self) -> None:
        super().__init__()
        self.set_count = 0

    def set(self, key: tuple[str, Hashable], deadline_ms: float) -> None:
        self.set_count += 1
        super().set(key, deadline_ms)


def test_a_heartbeat_sets_no_timer() -> None:
    """A thousand groups of ten members beat three thousand times a second."""
    scene = Scene()
    (member,) = scene.stable(Wish())
    counting = CountingDeadlines()
    scene.group._sessions._scope.deadlines = counting
    request = HeartbeatRequest(GROUP, member.generation_id, member.member_id)

    for number in range(1_000):
        moment = Moment(scene.now_ms + number, 0)
        effects = scene.shard.handle(request, caller(4), number, moment)
        assert len(effects) == 1

    assert counting.set_count == 0


# Leaving.


def test_who_leaves_makes_place_at_once() -> None:
    """The others need not wait for the session timeout."""
    scene = Scene()
    good, leaving = scene.stable(Wish(), Wish())

    left = scene.leave(MemberIdentity(leaving.member_id))

    assert [one.error_code for one in left.members] == [ErrorCode.NONE]
    assert scene.heartbeat(good) == ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.heartbeat(leaving) == ErrorCode.UNKNOWN_MEMBER_ID


def test_many_leave_in_one_round() -> None:
    """A batch that started one round each would be a storm (G-05)."""
    scene = Scene()
    joined = scene.stable(*[Wish() for _ in range(4)])

    scene.leave(*[MemberIdentity(one.member_id) for one in joined[1:]])
    ticket = scene.ask(join_request(Wish(member_id=joined[0].member_id)))

    assert scene.told(ticket).generation_id == 2


def test_the_last_to_leave_empties_the_group() -> None:
    """The log must say so: the retention of its offsets counts from here (G-01)."""
    scene = Scene()
    (member,) = scene.stable(Wish())
    written = len(scene.log)

    scene.leave(MemberIdentity(member.member_id))

    assert scene.state == "Empty"
    assert len(scene.log) == written + 1
    assert scene.restart().state == "Empty"
    assert scene.restart().group.generation.generation_id == 2


def test_each_leaving_member_gets_its_own_error_code() -> None:
    """One unknown member does not prevent the others from leaving."""
    scene = Scene()
    (member,) = scene.stable(Wish())

    left = scene.leave(MemberIdentity("x"), MemberIdentity(member.member_id))

    assert [(one.member_id, one.error_code) for one in left.members] == [
        ("x", ErrorCode.UNKNOWN_MEMBER_ID),
        (member.member_id, ErrorCode.NONE),
    ]
    assert left.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("member_id", "error"),
    [("client-id1", ErrorCode.NONE), ("x", ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_before_version_3_one_leaves(member_id: str, error: ErrorCode) -> None:
    """The answer has one error code instead of one per member."""
    scene = Scene()
    scene.stable(Wish())

    left = scene.answer(LeaveGroupRequest(GROUP, member_id), 2)

    assert (left.error_code, left.members) == (error, [])


def test_no_member_leaves_a_group_that_is_not_there() -> None:
    """Each of them hears it."""
    scene = Scene()
    many = LeaveGroupRequest("other", members=[MemberIdentity("x")])

    assert scene.answer(many, 5).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    one = scene.answer(LeaveGroupRequest("other", "x"), 1)
    assert one.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    nameless = scene.answer(LeaveGroupRequest(""), 5)
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID


def test_a_parked_request_is_answered_when_its_member_is_removed() -> None:
    """Its JoinGroup or SyncGroup would otherwise wait for ever."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish(instance_id="a"))
    parked_sync = scene.sync(follower, instance_id="a")
    scene.leave(MemberIdentity("", "a"))
    parked_join = scene.join(Wish(instance_id="a"))
    scene.leave(MemberIdentity("", "a"))

    assert scene.told(parked_sync).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.told(parked_join).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_id_that_goes_back_disturbs_no_member() -> None:
    """Only members have partitions."""
    scene = Scene()
    (member,) = scene.stable(Wish())
    told = scene.answer(join_request(Wish()))

    left = scene.leave(MemberIdentity(told.member_id))

    assert left.members[0].error_code == ErrorCode.NONE
    assert scene.heartbeat(member) == ErrorCode.NONE


@pytest.mark.parametrize("steps", range(5))
def test_a_group_that_falls_silent_at_any_point_is_empty_in_the_end(steps: int) -> None:
    """Every state has its timer, and every request its answer."""
    scene = Scene()
    tickets = [scene.join(Wish()), scene.join(Wish(instance_id="a"))]
    if steps > 0:
        scene.advance(DELAY_MS * 2)
    if steps > 1:
        scene.sync(scene.told(tickets[1]), instance_id="a")
    if steps > 2:
        scene.sync(scene.told(tickets[0]), {})
    if steps > 3:
        member_id = scene.told(tickets[0]).member_id
        scene.ask(join_request(Wish(member_id=member_id, topics=("u",))))

    scene.advance(300_000 + 3 * REBALANCE_MS)

    assert scene.state == "Empty"
    assert scene.answers.keys() == scene.asked


# Commits of members (G-02).


@pytest.mark.parametrize(
    ("member_id", "epoch", "is_transactional", "error"),
    [
        ("client-id1", 1, False, ErrorCode.NONE),
        ("client-id1", 0, False, ErrorCode.ILLEGAL_GENERATION),
        ("client-id1", 2, True, ErrorCode.ILLEGAL_GENERATION),
        ("x", 1, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, False, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, True, ErrorCode.NONE),
    ],
)
def test_only_members_of_the_generation_commit(
    member_id: str, epoch: int, is_transactional: bool, error: ErrorCode
) -> None:
    """A zombie's commit would move the position of the member that reads the partition now."""
    scene = Scene()
    scene.stable(Wish())

    judged = scene.group.check_commit(member_id, None, epoch, is_transactional=is_transactional)

    assert judged == error


def test_between_join_and_sync_no_member_commits() -> None:
    """The partitions are being handed out; a transaction's commit is judged by its producer."""
    scene = Scene()
    (member,) = scene.form(Wish())
    check = scene.group.check_commit

    refused = check(member.member_id, None, 1, is_transactional=False)
    assert refused == ErrorCode.REBALANCE_IN_PROGRESS
    assert check(member.member_id, None, 1, is_transactional=True) == ErrorCode.NONE


def test_an_empty_group_takes_commits_from_outside() -> None:
    """Administrators reset offsets that way."""
    scene = Scene()
    (member,) = scene.stable(Wish())
    scene.leave(MemberIdentity(member.member_id))
    check = scene.group.check_commit

    assert check("", None, -1, is_transactional=False) == ErrorCode.NONE
    late = check(member.member_id, None, 1, is_transactional=False)
    assert late == ErrorCode.UNKNOWN_MEMBER_ID

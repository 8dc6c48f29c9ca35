"""Members that keep their place over a restart (KIP-345), and twins that fight for one (G-07)."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leave_group import MemberIdentity
from tests.coordinator.group.classic.scene import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Scene,
    Wish,
    join_request,
)

A, B = Wish(instance_id="a"), Wish(instance_id="b")


def test_a_restart_of_an_unchanged_member_is_no_rebalance() -> None:
    """Static members exist to restart without a rebalance."""
    scene = Scene()
    _leader, follower = scene.stable(A, B)

    told = scene.told(scene.join(B))

    assert told.error_code == ErrorCode.NONE
    assert told.generation_id == follower.generation_id
    assert told.member_id != follower.member_id
    assert scene.state == "Stable"
    assert scene.told(scene.sync(told, instance_id="b")).assignment == b"b-id2"


def test_the_process_before_is_fenced_everywhere() -> None:
    """Two processes that believe to be one member would both read its partitions."""
    scene = Scene()
    _leader, old = scene.stable(A, B)
    scene.join(B)

    assert scene.heartbeat(old, "b") == ErrorCode.FENCED_INSTANCE_ID
    assert scene.told(scene.sync(old, instance_id="b")).error_code == ErrorCode.FENCED_INSTANCE_ID
    again = scene.answer(join_request(B._replace(member_id=old.member_id)))
    assert again.error_code == ErrorCode.FENCED_INSTANCE_ID
    left = scene.leave(MemberIdentity(old.member_id, "b"))
    assert left.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    commit = scene.group.check_commit(old.member_id, "b", old.generation_id, is_transactional=False)
    assert commit == ErrorCode.FENCED_INSTANCE_ID


def test_the_coordinator_writes_a_new_member_id_before_it_answers() -> None:
    """KAFKA-10284: else the next coordinator fences the new process instead of the old one."""
    scene = Scene()
    _leader, old = scene.stable(A, B)
    scene.holds_appends = True

    ticket = scene.join(B)
    assert ticket not in scene.answers
    scene.commit_one()
    told = scene.told(ticket)
    after = scene.restart()

    assert after.heartbeat(told, "b") == ErrorCode.NONE
    assert after.heartbeat(old, "b") == ErrorCode.FENCED_INSTANCE_ID


def test_if_the_new_id_cannot_be_written_the_old_process_stays() -> None:
    """A refused append answers an error and changes nothing."""
    scene = Scene()
    _leader, old = scene.stable(A, B)
    scene.holds_appends = True

    ticket = scene.join(B)
    scene.fail_one()

    assert scene.told(ticket).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.heartbeat(old, "b") == ErrorCode.NONE
    scene.advance(SESSION_MS)
    assert scene.state != "Stable"


def test_a_rejoin_that_is_overdue_is_answered_once() -> None:
    """GRP-05: the outcome is open; the client retries and takes its place again."""
    scene = Scene()
    scene.stable(A, B)
    scene.holds_appends = True

    ticket = scene.join(B)
    scene.overdue_all()
    assert scene.told(ticket).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    second = scene.join(B)
    scene.commit_all()

    assert scene.told(second).error_code == ErrorCode.NONE


def test_a_rejoin_that_a_round_overtakes_counts_as_joined() -> None:
    """The request is parked already; to answer it with the old generation would cost one more."""
    scene = Scene()
    leader, _old = scene.stable(A, B)
    scene.holds_appends = True

    ticket = scene.join(B)
    scene.ask(join_request(A._replace(member_id=leader.member_id)))
    scene.commit_all()

    assert scene.told(ticket).generation_id == leader.generation_id + 1


def test_a_rejoin_stays_parked_while_a_round_waits_for_others() -> None:
    """Told the old generation, the member would find at once that it does not hold any more."""
    scene = Scene()
    leader, _old, dynamic = scene.stable(A, B, Wish())
    scene.holds_appends = True

    ticket = scene.join(B)
    scene.ask(join_request(A._replace(member_id=leader.member_id)))
    scene.commit_all()
    assert ticket not in scene.answers
    scene.ask(join_request(Wish(member_id=dynamic.member_id)))

    assert scene.told(ticket).generation_id == leader.generation_id + 1


def test_twins_take_the_place_in_turn() -> None:
    """The newest join wins; a twin that is parked is fenced on the spot."""
    scene = Scene()
    first = scene.join(A)

    second = scene.join(A)
    scene.advance(DELAY_MS * 2)

    assert scene.told(first).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert scene.told(second).error_code == ErrorCode.NONE


def test_a_rejoin_before_the_assignment_starts_a_round() -> None:
    """The leader may be assigning to the old id already."""
    scene = Scene()
    leader, follower = scene.form(A, B)
    parked = scene.sync(follower, instance_id="b")

    scene.join(B)

    assert scene.state == "PreparingRebalance"
    assert scene.told(parked).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert scene.heartbeat(leader, "a") == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rejoin_for_other_topics_starts_a_round() -> None:
    """Otherwise it would never be assigned partitions of the new topics."""
    scene = Scene()
    scene.stable(A, B)

    scene.join(B._replace(topics=("t", "u")))

    assert scene.state == "PreparingRebalance"


def test_a_rejoin_that_changes_the_chosen_protocol_starts_a_round() -> None:
    """The assignment in force was made by another one."""
    scene = Scene()
    both = ("range", "sticky")
    scene.stable(A._replace(protocols=both), B._replace(protocols=both))

    scene.join(B._replace(protocols=("sticky",)))

    assert scene.state == "PreparingRebalance"


def test_a_leader_that_comes_back_skips_the_assignment() -> None:
    """KIP-814: it leads and has the members, but nothing is to be assigned."""
    scene = Scene()
    leader, follower = scene.stable(A, B)

    told = scene.told(scene.join(A))

    assert told.skip_assignment is True
    assert told.leader == told.member_id != leader.member_id
    assert {one.member_id for one in told.members} == {told.member_id, follower.member_id}


def test_a_follower_that_comes_back_is_no_leader() -> None:
    """It gets no members, and skip_assignment is false."""
    scene = Scene()
    scene.stable(A, B)

    told = scene.told(scene.join(B))

    assert told.skip_assignment is False
    assert told.members == []


def test_an_older_leader_that_comes_back_is_not_told_that_it_leads() -> None:
    """Before version 9 it would compute an assignment that no member would fetch."""
    scene = Scene()
    leader, _follower = scene.stable(A._replace(api_version=8), B)

    told = scene.told(scene.join(A._replace(api_version=8)))

    assert told.leader == leader.member_id != told.member_id
    assert told.members == []


def test_a_member_that_is_away_keeps_its_place_through_a_round() -> None:
    """Others rebalance without it; its partitions wait until its session ends."""
    scene = Scene()
    away = B._replace(session_ms=REBALANCE_MS * 3)
    leader, _gone = scene.stable(A._replace(session_ms=REBALANCE_MS * 3), away)
    ticket = scene.ask(join_request(A._replace(member_id=leader.member_id)))

    scene.advance(REBALANCE_MS)

    assert [one.group_instance_id for one in scene.told(ticket).members] == ["a", "b"]


def test_a_member_that_stays_away_goes_with_its_session() -> None:
    """In the end another member has to read its partitions."""
    scene = Scene()
    scene.stable(A)

    scene.advance(SESSION_MS)

    assert scene.state == "PreparingRebalance" or scene.state == "Empty"
    scene.advance(REBALANCE_MS)
    assert scene.state == "Empty"


def test_a_round_of_members_that_are_all_away_ends() -> None:
    """The group has no leader until a member comes back or the sessions end."""
    scene = Scene()
    long = REBALANCE_MS * 3
    scene.stable(A._replace(session_ms=long), B._replace(session_ms=SESSION_MS))
    scene.advance(SESSION_MS)
    assert scene.state == "PreparingRebalance"

    scene.advance(REBALANCE_MS)
    assert scene.state == "PreparingRebalance"
    ticket = scene.join(A)
    assert scene.told(ticket).error_code == ErrorCode.NONE
    scene.advance(long * 2)

    assert scene.state == "Empty"


def test_an_administrator_removes_a_static_member_by_its_name() -> None:
    """The member id, which changes, is not known to people."""
    scene = Scene()
    leader, _gone = scene.stable(A, B)

    left = scene.leave(MemberIdentity("", "b"), MemberIdentity("", "nobody"))

    assert [one.error_code for one in left.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert scene.heartbeat(leader, "a") == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unknown_name_is_an_unknown_member() -> None:
    """Not a fenced one: the process may join under that name."""
    scene = Scene()
    leader, _ = scene.stable(A, B)

    assert scene.heartbeat(leader, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("synced", [True, False])
def test_a_member_that_comes_back_without_having_synced_is_still_expected_to(
    synced: bool,
) -> None:
    """KAFKA-12890 holds for the new process as for the old one."""
    scene = Scene()
    leader, follower = scene.form(A, B)
    scene.sync(leader, {follower.member_id: b"x"}, instance_id="a")
    assert scene.state == "Stable"
    told = scene.told(scene.join(B))
    if synced:
        scene.sync(told, instance_id="b")

    for _ in range(REBALANCE_MS // 5_000):
        scene.heartbeat(leader, "a")
        scene.heartbeat(told, "b")
        scene.advance(5_000)

    expected = ErrorCode.NONE if synced else ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat(told, "b") == expected


def test_the_leader_gets_static_members_before_dynamic_ones() -> None:
    """kafka-python's range strategy loses members if the two kinds alternate."""
    dynamic = Wish(api_version=3)
    scene = Scene()

    answers = scene.form(dynamic, A, dynamic, B)

    (listed,) = [one.members for one in answers if one.members]
    assert [one.group_instance_id for one in listed] == ["a", "b", None, None]


def test_the_size_of_the_record_follows_a_member_that_restarts_as_another_client() -> None:
    """The limit of the record counts the members that there are: the sum must not drift (G-10)."""
    scene = Scene()
    _leader, follower = scene.stable(A, B)
    scene.told(scene.ask(join_request(B), client_id="a much longer client id"))
    members = scene.group.roster.members

    assert follower.member_id not in members
    assert scene.group.roster.size_bytes == sum(one.size_bytes for one in members.values())

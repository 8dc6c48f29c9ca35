"""Online migration between the protocols, over a whole shard and its log."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.group.consumer.shard_site import (
    Shard,
    assignment_bytes,
    join_request,
    partitions_of,
)
from tests.coordinator.group.consumer.site import beat, image_of, join, told


def with_classic(policy: str = "bidirectional", **fields: Any) -> tuple[Shard, str]:
    """One classic member in generation 1, which holds all four partitions."""
    shard = Shard(policy)
    ticket = shard.ask(join_request("", **fields), 3)
    shard.advance(1)
    joined = shard.answers[ticket]
    assert joined.error_code == ErrorCode.NONE
    shard.sync(joined, {joined.member_id: [0, 1, 2, 3]})
    assert shard.heartbeat(joined.member_id, 1) is ErrorCode.NONE
    return shard, joined.member_id


def migrated() -> tuple[Shard, str]:
    """A classic member with 0 and 1, ``new`` with 2 and 3, both in epoch 2."""
    shard, old = with_classic()
    shard.consumer(join("new"))
    assert shard.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = shard.join_classic(old, [])
    shard.sync(joined)
    assert told(shard.consumer(beat("new", 2))) == {"t": [2, 3]}
    return shard, old


def test_first_member_of_the_newer_protocol_takes_the_group_with_it() -> None:
    """No member stops for the migration, and no partition is taken that is still held."""
    shard, old = with_classic()

    joined = shard.consumer(join("new"))

    assert (joined.error_code, joined.member_epoch, told(joined)) == (ErrorCode.NONE, 2, {})
    state = shard.consumer_group().state
    assert state.members[old].progress.member_epoch == 1
    assert shard.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_classic_member_that_revokes_before_it_joins_is_there_in_one_round() -> None:
    """The eager protocol: it has nothing when it joins, so what it loses is free at once."""
    shard, old = with_classic()
    shard.consumer(join("new"))

    joined = shard.join_classic(old, [])

    assert (joined.generation_id, joined.protocol_name, joined.leader) == (2, "range", "")
    assert partitions_of(shard.sync(joined).assignment) == [0, 1]
    assert shard.heartbeat(old, 2) is ErrorCode.NONE
    assert told(shard.consumer(beat("new", 2))) == {"t": [2, 3]}
    assert shard.consumer_group().state_name == "Stable"


def test_classic_member_that_keeps_its_partitions_has_to_say_when_they_are_revoked() -> None:
    """The cooperative protocol (KIP-429): it still consumes while it joins."""
    shard, old = with_classic()
    shard.consumer(join("new"))

    first = shard.join_classic(old, [0, 1, 2, 3])
    assert first.generation_id == 1
    assert partitions_of(shard.sync(first).assignment) == [0, 1]
    assert told(shard.consumer(beat("new", 2))) is None
    assert shard.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    second = shard.join_classic(old, [0, 1])

    assert second.generation_id == 2
    assert partitions_of(shard.sync(second).assignment) == [0, 1]
    assert told(shard.consumer(beat("new", 2))) == {"t": [2, 3]}


def test_classic_member_is_called_when_what_it_waits_for_is_free() -> None:
    """It cannot be told in a heartbeat what it may own; it has to join for that."""
    shard, old = migrated()
    shard.consumer(join("newer"))
    shard.consumer(beat("new", 2, {"t": [2, 3]}))
    joined = shard.join_classic(old, [])
    shard.sync(joined)
    shard.consumer(beat("new", -1))
    joined = shard.join_classic(old, [0])
    before = partitions_of(shard.sync(joined).assignment)

    assert shard.heartbeat(old, joined.generation_id) is ErrorCode.NONE
    assert len(before) == 2


def test_both_kinds_of_members_are_described() -> None:
    """An operator sees from it how far the migration is (KIP-1099)."""
    shard, old = migrated()
    request = ConsumerGroupDescribeRequest(["g"])

    (group,) = shard.answer(request, 1).groups

    assert {one.member_id: one.member_type for one in group.members} == {old: 0, "new": 1}


def test_group_goes_back_when_the_last_of_the_newer_protocol_leaves() -> None:
    """The way back must be open as long as the migration is not complete."""
    shard, old = migrated()

    shard.consumer(beat("new", -1))

    assert isinstance(shard.group, ClassicGroup)
    assert shard.heartbeat(old, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = shard.join_classic(old, [])
    assert (joined.generation_id, joined.leader) == (3, old)
    shard.sync(joined, {old: [0, 1, 2, 3]})
    assert shard.heartbeat(old, 3) is ErrorCode.NONE


def test_group_goes_back_when_the_last_of_the_newer_protocol_is_silent() -> None:
    """A crash is a way of leaving."""
    shard, old = migrated()
    for _ in range(9):
        shard.advance(5_000)
        shard.heartbeat(old, 2)

    assert isinstance(shard.group, ClassicGroup)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_migration_policy_refuses_an_upgrade_to_a_consumer_group(policy: str) -> None:
    """The new member gets the error, and the classic group continues undisturbed."""
    shard, old = with_classic(policy)

    assert shard.consumer(join("new")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.heartbeat(old, 1) is ErrorCode.NONE


@pytest.mark.parametrize("policy", ["upgrade"])
def test_the_migration_policy_refuses_a_downgrade_to_a_classic_group(policy: str) -> None:
    """Classic members that are left alone stay in the consumer group."""
    shard, old = with_classic(policy)
    shard.consumer(join("new"))
    shard.consumer(beat("new", -1))

    assert isinstance(shard.group, ConsumerGroup)
    joined = shard.join_classic(old, [])
    assert partitions_of(shard.sync(joined).assignment) == [0, 1, 2, 3]


def test_refused_join_does_not_convert() -> None:
    """The group must be what it was, in memory and in the log."""
    shard, old = with_classic()
    length = len(shard.log)
    request = join("new")
    request.server_assignor = "none"

    assert shard.consumer(request).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert shard.heartbeat(old, 1) is ErrorCode.NONE
    assert len(shard.log) == length


def test_malformed_bytes_of_a_classic_member_refuse_the_conversion() -> None:
    """What they hold cannot be known, so nothing may be given away."""
    shard, old = with_classic(metadata=b"\x00\x01\x00")

    assert shard.consumer(join("new")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.heartbeat(old, 1) is ErrorCode.NONE


def test_group_of_another_kind_of_client_is_not_converted() -> None:
    """Connect workers do not share partitions of topics."""
    shard, _old = with_classic(protocol_type="connect")

    assert shard.consumer(join("new")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_joins_that_wait_in_the_classic_group_are_called_again() -> None:
    """They would otherwise wait for a round that never completes (G-06)."""
    shard, _old = with_classic()
    waiting = shard.ask(join_request("", []), 3)
    assert waiting not in shard.answers

    shard.consumer(join("new"))

    assert shard.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(shard.consumer_group().state.members) == 2


def test_empty_groups_are_simply_replaced() -> None:
    """An empty group has no members to migrate, so the policy does not apply."""
    shard, old = with_classic("disabled")
    shard.answer(LeaveGroupRequest("g", members=[MemberIdentity(old)]), 5)
    shard.advance(1)

    assert shard.consumer(join("new")).error_code == ErrorCode.NONE
    shard.consumer(beat("new", -1))
    ticket = shard.ask(join_request("", []), 3)
    shard.advance(1)

    assert shard.answers[ticket].error_code == ErrorCode.NONE
    assert isinstance(shard.group, ClassicGroup)


@pytest.mark.parametrize("is_back", [False, True])
def test_the_next_coordinator_finds_the_group_of_the_kind_it_is(is_back: bool) -> None:
    """One batch holds the end of the one and the beginning of the other group."""
    shard, old = migrated()
    if is_back:
        shard.consumer(beat("new", -1))

    other = Shard(log=shard.log)

    assert type(other.group) is type(shard.group)
    if not is_back:
        assert other.heartbeat(old, 2) is ErrorCode.NONE
        assert other.consumer(beat("new", 2)).error_code == ErrorCode.NONE
        assert (
            other.consumer_group().state.members[old].subscription
            == shard.consumer_group().state.members[old].subscription
        )


def test_a_classic_member_is_refused_with_foreign_ids_generations_and_protocols() -> None:
    """Ids of the other protocol, other generations and unknown protocols."""
    shard, old = migrated()

    assert shard.heartbeat("new", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat("x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(old, 1) is ErrorCode.ILLEGAL_GENERATION
    joined = shard.join_classic("x", [], protocols=("other",))
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    joined = shard.join_classic("x", [], protocol_type="connect")
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    joined = shard.join_classic("x", metadata=b"\x00")
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    sync = SyncGroupRequest("g", 2, old, protocol_name="other")
    assert shard.answer(sync, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    sync = SyncGroupRequest("g", 1, old)
    assert shard.answer(sync, 5).error_code == ErrorCode.ILLEGAL_GENERATION


def test_newcomer_of_the_classic_protocol_comes_twice() -> None:
    """First for its id, as in a classic group (KIP-394)."""
    shard, _old = migrated()

    first = shard.answer(join_request(""), 9)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    second = shard.answer(join_request(first.member_id), 9)

    assert (second.error_code, second.generation_id) == (ErrorCode.NONE, 3)
    assert len(shard.consumer_group().state.members) == 3


@pytest.mark.parametrize("deed", ["join", "sync"])
def test_classic_member_that_stays_away_is_removed(deed: str) -> None:
    """It heartbeats, so its session does not end; the others still wait for it (G-06)."""
    shard, old = migrated()
    shard.consumer(join("newer"))
    generation_id = 2
    if deed == "sync":
        generation_id = shard.join_classic(old, []).generation_id
    for _ in range(14):
        shard.advance(4_999)
        shard.consumer(beat("newer", 3))
        shard.heartbeat(old, generation_id)

    assert old not in shard.consumer_group().state.members


def test_static_member_changes_its_protocol_in_place() -> None:
    """A rolling restart with instance ids: the new process replaces the old one (KIP-345)."""
    shard = Shard()
    ticket = shard.ask(join_request("", instance_id="one"), 9)
    shard.advance(1)
    joined = shard.answers[ticket]
    shard.answer(
        SyncGroupRequest(
            "g",
            1,
            joined.member_id,
            "one",
            assignments=[
                SyncGroupRequestAssignment(joined.member_id, assignment_bytes([0, 1, 2, 3]))
            ],
        ),
        5,
    )

    response = shard.consumer(join("new", instance_id="one"))

    assert (response.error_code, told(response)) == (ErrorCode.NONE, {"t": [0, 1, 2, 3]})
    state = shard.consumer_group().state
    assert list(state.members) == ["new"]
    assert state.classic_count == 0


def test_static_member_goes_back_to_the_classic_protocol_in_place() -> None:
    """The way back of the same; with it the whole group is classic again."""
    shard = Shard()
    shard.consumer(join("new", instance_id="one"))

    joined = shard.join_classic("", [], instance_id="one")

    assert joined.error_code == ErrorCode.NONE
    assert isinstance(shard.group, ClassicGroup)
    again = shard.answer(join_request(joined.member_id, [], instance_id="one"), 9)
    assert (again.error_code, again.leader) == (ErrorCode.NONE, joined.member_id)


def test_offsets_are_checked_against_the_generation_of_a_classic_member() -> None:
    """It knows no member epoch; the code it understands is another one."""
    group = migrated()[0].consumer_group()
    (old,) = [one for one in group.state.members if one != "new"]

    assert group.check_commit(old, None, 2, is_transactional=False) is ErrorCode.NONE
    assert group.check_commit(old, None, 1, is_transactional=False) is ErrorCode.ILLEGAL_GENERATION


def test_migration_moves_no_more_than_balance_asks_for() -> None:
    """What the classic members hold is where the first target begins."""
    shard = Shard()
    shard.image = image_of({"t": 6})
    earlier = shard.ask(join_request(""), 3)
    shard.advance(1)
    later = shard.ask(join_request(""), 3)
    again = shard.ask(join_request(shard.answers[earlier].member_id), 3)
    first, second = shard.answers[again], shard.answers[later]
    held = {first.member_id: [1, 3, 5], second.member_id: [0, 2, 4]}
    leader, follower = sorted((first, second), key=lambda one: one.member_id != one.leader)
    shard.ask_sync(follower)
    shard.sync(leader, held)

    shard.consumer(join("new"))

    targets = shard.consumer_group().state.targets
    for member_id, before in held.items():
        (kept,) = targets[member_id].values()
        assert kept < set(before)
        assert len(kept) == 2


def test_classic_member_has_a_session_from_the_migration_on() -> None:
    """The timers of the classic group are gone with it; one that died meanwhile would stay."""
    shard, old = with_classic()
    shard.consumer(join("new"))

    shard.advance(10_001)

    assert old not in shard.consumer_group().state.members
    assert told(shard.consumer(beat("new", 2))) == {"t": [0, 1, 2, 3]}

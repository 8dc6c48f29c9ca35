"""How large a group may be, and what is in it: members, subscriptions, names, answers."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.common.settings import GroupSettings
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from tests.coordinator.group.classic.scene import (
    DELAY_MS,
    GROUP,
    Scene,
    Wish,
    join_request,
)

# The size of a group.

TWO = GroupSettings(initial_rebalance_delay_ms=DELAY_MS, max_size=2)


def test_a_full_group_takes_no_more_members() -> None:
    """The new member gets an error, without a rebalance for the others."""
    scene = Scene(TWO)
    scene.stable(Wish(), Wish())

    told = scene.answer(join_request(Wish()))

    assert (told.error_code, told.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert scene.state == "Stable"


def test_given_ids_count_towards_the_size() -> None:
    """KAFKA-9844: else many could be promised the last place."""
    scene = Scene(TWO)
    promised = [scene.answer(join_request(Wish())) for _ in range(2)]

    told = scene.answer(join_request(Wish()))

    assert told.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    tickets = [scene.ask(join_request(Wish(member_id=one.member_id))) for one in promised]
    scene.advance(DELAY_MS * 2)
    assert {scene.told(ticket).error_code for ticket in tickets} == {ErrorCode.NONE}


def test_a_static_member_of_a_full_group_may_start_again() -> None:
    """A static member that restarts replaces itself."""
    scene = Scene(TWO)
    scene.stable(Wish(instance_id="a"), Wish(instance_id="b"))

    ticket = scene.join(Wish(instance_id="a"))

    assert scene.told(ticket).error_code == ErrorCode.NONE


def test_the_last_to_join_a_group_that_has_become_too_large_go() -> None:
    """The limit was made smaller, and the coordinator has moved."""
    before = Scene()
    joined = before.stable(Wish(), Wish(), Wish())
    scene = before.restart(TWO)
    assert scene.heartbeat(joined[0]) == ErrorCode.REBALANCE_IN_PROGRESS

    tickets = [scene.ask(join_request(Wish(member_id=one.member_id))) for one in joined]

    assert [scene.told(ticket).error_code for ticket in tickets] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]


# Sizes of requests (hazard G-10).


def test_a_subscription_that_could_not_be_stored_is_refused() -> None:
    """KAFKA-13998: a group record larger than a message may be would stop the whole group."""
    scene = Scene(GroupSettings(max_record_bytes=10_000))

    told = scene.answer(join_request(Wish(metadata=bytes(10_001), api_version=3)), 3)

    assert told.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.state == "none"


def test_a_member_may_not_outgrow_the_record_later_either() -> None:
    """It keeps what it has; only the new subscription is refused."""
    scene = Scene(GroupSettings(max_record_bytes=10_000))
    leader, follower = scene.stable(Wish(), Wish())
    wish = Wish(member_id=follower.member_id, metadata=bytes(9_900))

    told = scene.answer(join_request(wish))

    assert told.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.heartbeat(follower) == scene.heartbeat(leader) == ErrorCode.NONE


@pytest.mark.parametrize(
    "wish",
    [
        Wish(instance_id="x" * 1_025),
        Wish(protocol_type="x" * 1_025),
        Wish(protocols=("x" * 1_025,)),
    ],
)
def test_names_that_no_record_can_hold_are_refused(wish: Wish) -> None:
    """From version 6 on the wire allows them; older answers and records do not (KAFKA-14422)."""
    assert Scene().answer(join_request(wish)).error_code == ErrorCode.INVALID_REQUEST


def test_a_group_id_that_no_record_can_hold_is_refused() -> None:
    """It would fail at the first write, when members are in already."""
    told = Scene().answer(join_request(Wish(group_id="x" * 32_768)))

    assert told.error_code == ErrorCode.INVALID_GROUP_ID


def test_a_long_client_id_still_makes_a_member_id() -> None:
    """A client id may fill a string by itself; the member id has to fit as well."""
    scene = Scene()

    ticket = scene.ask(join_request(Wish()), 9, "x" * 32_767)

    assert len(scene.told(ticket).member_id) < 300
    assert GROUP in scene.shard.groups


@pytest.mark.parametrize("version", range(10))
def test_every_answer_can_be_written_in_every_version(version: int) -> None:
    """KAFKA-14422: one that cannot is never sent, and its member never expires."""
    scene = Scene()
    wish = Wish(api_version=version, instance_id="a" if version >= 5 else None)
    refused = scene.answer(join_request(wish._replace(member_id="x")), version)
    ticket = scene.join(wish)
    scene.advance(DELAY_MS)
    joined = scene.told(ticket)

    for response in (refused, joined):
        assert decode(JoinGroupResponse, version, encode(response, version)).error_code == (
            response.error_code
        )
    synced = scene.told(scene.sync(joined, {joined.member_id: b"x"}, wish.instance_id))
    sync_version = min(version, 5)
    told = decode(SyncGroupResponse, sync_version, encode(synced, sync_version))
    assert told.assignment == b"x"
    described = scene.answer(DescribeGroupsRequest([GROUP, "none"]), min(version, 6))
    assert encode(described, min(version, 6))

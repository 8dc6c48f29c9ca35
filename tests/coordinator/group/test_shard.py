"""The shard: what it knows after loading, tells about its groups, and leaves behind at its end."""

from __future__ import annotations

import pytest

from ottla.coordinator.effects import LogRecord
from ottla.coordinator.group.common.record_values import GroupMetadataValue, MemberMetadata
from ottla.coordinator.group.common.records import group_record
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.metadata.image import MetadataImage, PartitionState, TopicImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.leave_group import MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.group.classic.scene import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    WALL_MS,
    Scene,
    Wish,
    join_request,
    subscription,
)

# Loading.


def test_a_coordinator_that_takes_over_knows_the_members() -> None:
    """The members notice nothing of the failover."""
    before = Scene()
    joined = before.stable(Wish(instance_id="a"), Wish(), Wish())
    scene = before.restart()

    assert scene.state == "Stable"
    assert [scene.heartbeat(one) for one in joined[1:]] == [ErrorCode.NONE] * 2
    assert scene.heartbeat(joined[0], "a") == ErrorCode.NONE
    told = scene.told(scene.sync(joined[1]))
    assert told.assignment == joined[1].member_id.encode()


def test_a_record_that_names_a_member_twice_does_not_stop_the_coordinator() -> None:
    """Another program wrote it; the other groups of the partition must be served."""
    names = ("i", "client", "host", 60_000, 45_000, subscription("t"), b"assigned")
    members = [MemberMetadata(member_id, *names) for member_id in ("m", "m", "n")]
    value = GroupMetadataValue("consumer", 7, "range", "m", 0, members)
    scene = Scene(log=[group_record(GROUP, value)])

    assert list(scene.group.roster.members) == ["m"]
    assert scene.state == "Stable"


def test_a_failover_evicts_no_member() -> None:
    """G-08: sessions that were loaded with their old times would all be overdue at once."""
    before = Scene()
    joined = before.stable(*[Wish(client_id=f"c{number}") for number in range(1_000)])
    before.advance(SESSION_MS - 1)
    scene = before.restart()

    scene.advance(SESSION_MS - 1)

    assert {scene.heartbeat(one) for one in joined} == {ErrorCode.NONE}
    assert scene.group.generation.generation_id == 1


def test_members_that_did_not_survive_the_failover_go() -> None:
    """New sessions are sessions."""
    before = Scene()
    before.stable(Wish())
    scene = before.restart()

    scene.advance(SESSION_MS)

    assert scene.state == "Empty"


def test_a_generation_that_was_never_stored_is_not_known() -> None:
    """Its members join again, which is what REBALANCE or unknown members are told."""
    before = Scene()
    joined = before.form(Wish())
    scene = before.restart()

    assert scene.heartbeat(joined[0]) == ErrorCode.UNKNOWN_MEMBER_ID


def test_records_of_newer_brokers_are_passed_over() -> None:
    """A coordinator that refused to load would take all its groups down."""
    scene = Scene(log=[LogRecord(b"\0\x63\0\0", b"?"), LogRecord(b"\0\2\0\1g", b"\0\x63")])

    assert scene.shard.groups == {}
    assert scene.shard.skipped.unknown_count == 2


# The end.


def test_every_waiting_caller_is_answered_at_the_end() -> None:
    """A client whose coordinator has moved must not wait for its request timeout (GRP-10)."""
    scene = Scene()
    leader, follower = scene.form(Wish(), Wish())
    scene.holds_appends = True
    waiting = [
        scene.sync(follower),
        scene.sync(leader, {}),
        scene.join(Wish(group_id="other")),
        scene.join(Wish(group_id="static", instance_id="a")),
    ]

    scene.perform(scene.shard.unload(ErrorCode.NOT_COORDINATOR))

    assert [scene.told(one).error_code for one in waiting] == [ErrorCode.NOT_COORDINATOR] * 4
    assert scene.answers.keys() == scene.asked
    assert [group_id for group_id, _ in scene.scope.deadlines.expired(REBALANCE_MS * 5)] == []


def test_a_static_rejoin_that_waits_for_the_log_is_answered_once_at_the_end() -> None:
    """Its group and its append both know of it."""
    scene = Scene()
    scene.stable(Wish(instance_id="a"))
    scene.holds_appends = True
    ticket = scene.join(Wish(instance_id="a"))

    scene.perform(scene.shard.unload(ErrorCode.NOT_COORDINATOR))

    assert scene.told(ticket).error_code == ErrorCode.NOT_COORDINATOR


# Listing and describing.


def _listed(
    scene: Scene, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> list[str]:
    request = ListGroupsRequest(list(states), list(types))
    return [one.group_id for one in scene.shard.listing(request) if one is not None]


def test_groups_are_listed_by_state_and_type() -> None:
    """KIP-518 and KIP-848; case does not matter, and no filter is all."""
    scene = Scene()
    scene.stable(Wish())
    scene.join(Wish(group_id="other", protocol_type="connect"))

    assert _listed(scene) == [GROUP, "other"]
    assert _listed(scene, states=("stable",)) == [GROUP]
    assert _listed(scene, states=("PreparingRebalance", "Dead")) == ["other"]
    assert _listed(scene, types=("Classic",)) == [GROUP, "other"]
    assert _listed(scene, types=("consumer",)) == []
    first = next(scene.shard.listing(ListGroupsRequest()))
    assert first is not None
    assert (first.protocol_type, first.group_state, first.group_type) == (
        "consumer",
        "Stable",
        "classic",
    )


def test_a_stable_group_shows_what_its_members_have() -> None:
    """Lag exporters and consoles read it from here."""
    scene = Scene()
    joined = scene.stable(Wish(instance_id="a"), Wish())

    (group,) = scene.answer(DescribeGroupsRequest([GROUP]), 5).groups

    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [one.member_id for one in group.members] == [one.member_id for one in joined]
    assert [one.group_instance_id for one in group.members] == ["a", None]
    assert group.members[0].member_metadata == subscription("t")
    assert group.members[0].member_assignment == joined[0].member_id.encode()
    assert (group.members[0].client_id, group.members[0].client_host) == ("client", "/host")


def test_a_group_in_a_round_shows_who_is_there() -> None:
    """Subscriptions are not settled during a round."""
    scene = Scene()
    scene.join(Wish())

    (group,) = scene.answer(DescribeGroupsRequest([GROUP]), 5).groups

    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert group.members[0].member_metadata == b""


@pytest.mark.parametrize(
    ("version", "error"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_group_that_is_not_there_is_dead(version: int, error: ErrorCode) -> None:
    """KIP-1043: from version 6 on it is an error as well."""
    (group,) = Scene().answer(DescribeGroupsRequest(["x"]), version).groups

    assert (group.group_state, group.error_code) == ("Dead", error)
    assert (group.error_message is None) == (version == 5)


# Deleting.


def _delete(scene: Scene, group_id: str = GROUP) -> ErrorCode:
    (result,) = scene.answer(DeleteGroupsRequest([group_id]), 2).results
    return ErrorCode(result.error_code)


def test_only_groups_without_members_are_deleted() -> None:
    """KIP-229; the log forgets them too."""
    scene = Scene()
    (member,) = scene.stable(Wish())
    assert _delete(scene) == ErrorCode.NON_EMPTY_GROUP
    scene.leave(MemberIdentity(member.member_id))

    assert _delete(scene) == ErrorCode.NONE
    assert _delete(scene) == ErrorCode.GROUP_ID_NOT_FOUND
    assert scene.restart().shard.groups == {}


def test_a_deletion_that_fails_changes_nothing() -> None:
    """The client gets an error."""
    scene = Scene()
    (member,) = scene.stable(Wish())
    scene.leave(MemberIdentity(member.member_id))
    scene.holds_appends = True

    ticket = scene.ask(DeleteGroupsRequest([GROUP]), 2)
    assert ticket not in scene.answers
    scene.fail_one()

    assert scene.told(ticket).results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.state == "Empty"


def test_a_deletion_waits_for_every_group_though_the_first_has_nothing_to_delete() -> None:
    """A group with only a promised member id has no record, and is deleted at once."""
    scene = Scene()
    (member,) = scene.stable(Wish())
    scene.leave(MemberIdentity(member.member_id))
    scene.ask(join_request(Wish(group_id="promised")))
    scene.holds_appends = True

    ticket = scene.ask(DeleteGroupsRequest(["promised", GROUP]), 2)
    assert ticket not in scene.answers
    scene.fail_one()

    errors = [result.error_code for result in scene.told(ticket).results]
    assert errors == [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_who_joins_while_the_group_is_deleted_is_in_the_group() -> None:
    """Its record follows the deletion in the log."""
    scene = Scene()
    (member,) = scene.stable(Wish())
    scene.leave(MemberIdentity(member.member_id))
    scene.holds_appends = True
    deletion = scene.ask(DeleteGroupsRequest([GROUP]), 2)
    ticket = scene.join(Wish())

    scene.commit_all()
    scene.holds_appends = False
    scene.advance(DELAY_MS)
    joined = scene.told(ticket)
    scene.settle(joined)

    assert scene.told(deletion).results[0].error_code == ErrorCode.NONE
    assert scene.restart().heartbeat(joined) == ErrorCode.NONE


# The story of a group.


def test_the_timeline_lists_joins_and_removals_with_their_timers() -> None:
    """Users ask most often why a consumer left its group."""
    scene = Scene()
    scene.stable(Wish())
    scene.advance(SESSION_MS)

    events = scene.shard.timeline(GROUP)

    assert [event.kind for event in events] == [
        GroupEventKind.ID_GIVEN,
        GroupEventKind.JOINED,
        GroupEventKind.REBALANCE_STARTED,
        GroupEventKind.GENERATION,
        GroupEventKind.ASSIGNED,
        GroupEventKind.REMOVED,
        GroupEventKind.REBALANCE_STARTED,
        GroupEventKind.EMPTY,
    ]
    removed = events[5]
    assert removed.wall_ms == WALL_MS + DELAY_MS * 2 + SESSION_MS
    assert removed.sentence == (
        "client-id1 was removed (generation 1): "
        "its session ended, after 10000 ms without a heartbeat"
    )


def test_a_simple_group_is_an_empty_one() -> None:
    """It has offsets and never had members; it can be seen and deleted as any other."""
    scene = Scene()
    partition = PartitionState((1,))
    scene.image = MetadataImage("c", topics={"t": TopicImage("t", b"t" * 16, {0: partition})})
    partitions = [OffsetCommitRequestPartition(0, 5)]
    topics = [OffsetCommitRequestTopic("t", partitions=partitions)]
    scene.ask(OffsetCommitRequest("simple", topics=topics), 8)

    (listed,) = scene.shard.listing(ListGroupsRequest())
    assert listed is not None
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("simple", "Empty", "")
    (described,) = scene.answer(DescribeGroupsRequest(["simple"]), 6).groups
    assert (described.group_state, described.error_code) == ("Empty", ErrorCode.NONE)
    assert _delete(scene, "simple") == ErrorCode.NONE
    assert _listed(scene) == []


def test_the_sweep_for_old_offsets_comes_again_and_again() -> None:
    """offsets.retention.check.interval.ms; and it does not hold up anything else."""
    scene = Scene(GroupSettings(offsets_retention_check_interval_ms=1_000))

    for _ in range(3):
        assert scene.shard.next_deadline_ms() == scene.now_ms + 1_000
        scene.advance(1_000)


def test_a_join_of_an_unknown_id_leaves_no_group_behind() -> None:
    """A client that guesses ids must not fill the memory."""
    scene = Scene()

    scene.ask(join_request(Wish(member_id="x")))

    assert scene.shard.groups == {}

"""Offsets and groups that are kept no longer."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.common.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.group.offsets.scene import DAY_MS, GROUP, WALL_MS, PlainGroup, Scene, moment

RETENTION_MS = 7 * DAY_MS


def sweep(scene: Scene, wall_ms: int) -> None:
    """A whole sweep, with everything committed that comes of it."""
    scene.expiry.start()
    while scene.expiry.run(moment(wall_ms)):
        scene.perform()
    scene.perform()
    scene.settle()


def scene_with(group: PlainGroup | None, *offsets: int) -> Scene:
    scene = Scene(GroupSettings(offsets_retention_ms=RETENTION_MS))
    scene.commit(*offsets)
    scene.settle()
    if group is not None:
        scene.groups[GROUP] = group
    return scene


@pytest.mark.parametrize(("age_ms", "is_kept"), [(RETENTION_MS - 1, True), (RETENTION_MS, False)])
def test_a_standalone_offset_goes_at_its_age(age_ms: int, is_kept: bool) -> None:
    """Such a group has no members, so the commit is its only sign of life."""
    scene = scene_with(None, 42)

    sweep(scene, WALL_MS + age_ms)

    assert (scene.offset() == 42) == is_kept
    assert (scene.reloaded().offset() == 42) == is_kept


@pytest.mark.parametrize(("age_ms", "is_kept"), [(RETENTION_MS - 1, True), (RETENTION_MS, False)])
def test_the_offsets_of_a_group_go_when_it_was_empty_long_enough(
    age_ms: int, is_kept: bool
) -> None:
    """G-01: a quiet topic's old commit must last as long as its group and a week more."""
    empty_since = WALL_MS + 100 * DAY_MS
    scene = scene_with(PlainGroup(empty_since_wall_ms=empty_since), 42)

    sweep(scene, empty_since + age_ms)

    assert (scene.offset() == 42) == is_kept


def test_an_offset_set_in_an_empty_group_gets_the_full_retention_time() -> None:
    """An administrator resets a group that was empty for a year: the offset must not expire at
    once."""
    scene = scene_with(PlainGroup(empty_since_wall_ms=WALL_MS - 365 * DAY_MS), 42)

    sweep(scene, WALL_MS + RETENTION_MS - 1)

    assert scene.offset() == 42


def test_nothing_goes_while_a_rebalance_runs() -> None:
    """G-01: between two generations it is unknown what the group consumes."""
    group = PlainGroup(empty_since_wall_ms=None, has_settled_subscriptions=False)
    scene = scene_with(group, 42)

    sweep(scene, WALL_MS + 1_000 * DAY_MS)

    assert scene.offset() == 42


def test_a_living_group_keeps_what_it_consumes_and_loses_what_it_left() -> None:
    """KIP-211: otherwise a group that changes its topics grows for ever."""
    group = PlainGroup(has_settled_subscriptions=True, topics=frozenset({"t"}))
    scene = scene_with(None, 42)
    partitions = [OffsetCommitRequestPartition(0, 7)]
    topics = [OffsetCommitRequestTopic("u", partitions=partitions)]
    scene.commit_request(OffsetCommitRequest(GROUP, topics=topics))
    scene.settle()
    scene.groups[GROUP] = group

    sweep(scene, WALL_MS + RETENTION_MS - 1)
    assert scene.committed() == {("t", 0): 42, ("u", 0): 7}
    sweep(scene, WALL_MS + RETENTION_MS)
    assert scene.committed() == {("t", 0): 42}
    assert GROUP in scene.groups


@pytest.mark.parametrize("retention_ms", [1_000, 30 * DAY_MS])
def test_the_retention_time_of_a_commit_overrides_the_setting(retention_ms: int) -> None:
    """KAFKA-8069: it is a point in time, whether sooner or later than the setting says."""
    scene = Scene(GroupSettings(offsets_retention_ms=RETENTION_MS))
    scene.commit(42, version=4, retention_time_ms=retention_ms)
    scene.settle()
    scene = scene.reloaded()

    sweep(scene, WALL_MS + retention_ms - 1)
    assert scene.offset() == 42
    sweep(scene, WALL_MS + retention_ms)
    assert scene.offset() == -1


def test_a_retention_for_ever_is_as_long_as_time_goes() -> None:
    """The sum of now and the longest time fits no record; it must not be found out there."""
    scene = Scene(GroupSettings(offsets_retention_ms=RETENTION_MS))

    scene.commit(42, version=4, retention_time_ms=2**63 - 1)
    scene.settle()

    sweep(scene, WALL_MS + 1_000 * RETENTION_MS)
    assert scene.offset() == 42


def test_a_pending_transactional_commit_keeps_the_offset() -> None:
    """T-23: the transaction may still abort, and what was before it is then in force."""
    scene = scene_with(None, 42)
    scene.commit_in_transaction(7, 50)
    scene.settle()

    sweep(scene, WALL_MS + RETENTION_MS)
    assert scene.offset() == 42
    scene.mark(7, is_commit=False)
    assert scene.offset() == 42
    sweep(scene, WALL_MS + RETENTION_MS)
    assert scene.offset() == -1


def test_a_commit_in_flight_is_not_overtaken_by_expiry() -> None:
    """Its tombstone would stand behind the commit that has just been made."""
    scene = scene_with(None, 42)
    scene.commit(50)

    sweep(scene, WALL_MS + RETENTION_MS)

    assert scene.committed() == scene.reloaded().committed() == {("t", 0): 50}


def test_a_commit_after_the_tombstone_stays() -> None:
    """The consumer came back in the very moment."""
    scene = scene_with(PlainGroup(empty_since_wall_ms=0), 42)
    scene.expiry.start()
    scene.expiry.run(moment(WALL_MS + RETENTION_MS))
    scene.perform()

    scene.commit(50)
    scene.settle()

    assert scene.committed() == scene.reloaded().committed() == {("t", 0): 50}


def test_an_empty_group_without_offsets_is_deleted() -> None:
    """Group ids made at random by consoles and tests would pile up."""
    scene = scene_with(PlainGroup(empty_since_wall_ms=WALL_MS), 1, 2)

    sweep(scene, WALL_MS + RETENTION_MS)

    assert scene.groups == {}
    assert scene.table.group_ids() == set()
    assert [record.key[:2] for record in scene.records] == [b"\0\1"] * 4 + [b"\0\2"]


@pytest.mark.parametrize(("group_type", "must_reload"), [("consumer", True), ("classic", False)])
def test_an_end_that_was_not_written_is_the_end_of_the_memory_of_it(
    group_type: str, must_reload: bool
) -> None:
    """The next group of that id would be read as one with the records of this one."""
    scene = Scene()
    scene.groups[GROUP] = PlainGroup(group_type=group_type, empty_since_wall_ms=WALL_MS)
    scene.expiry.start()
    scene.expiry.run(moment(WALL_MS))
    scene.perform()

    scene.fail(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert scene.scope.must_reload is must_reload


def test_a_group_with_offsets_stays() -> None:
    """Deleted first, its offsets would look like those of a standalone consumer."""
    scene = scene_with(PlainGroup(empty_since_wall_ms=WALL_MS), 1)

    sweep(scene, WALL_MS + RETENTION_MS - 1)

    assert GROUP in scene.groups


@pytest.mark.parametrize("is_transactional", [True, False])
def test_a_group_with_a_pending_commit_is_not_removed(is_transactional: bool) -> None:
    """The group is about to have offsets."""
    scene = scene_with(None)
    if is_transactional:
        scene.commit_in_transaction(7, 42)
    else:
        scene.commit(42)
    scene.groups[GROUP] = PlainGroup(empty_since_wall_ms=WALL_MS)

    sweep(scene, WALL_MS)

    assert GROUP in scene.groups


def test_a_group_with_members_stays_without_offsets() -> None:
    """The group is new."""
    scene = Scene()
    scene.groups[GROUP] = PlainGroup(has_settled_subscriptions=True)

    sweep(scene, WALL_MS + 1_000 * DAY_MS)

    assert GROUP in scene.groups
    assert scene.log == []


def test_a_sweep_runs_in_slices() -> None:
    """A million offsets at once would hold up every heartbeat of the broker."""
    scene = Scene()
    group_ids = [f"g{number}" for number in range(20)]
    for group_id in group_ids:
        scene.commit(1, 2, 3, group_id=group_id)
    scene.settle()
    now = moment(WALL_MS + RETENTION_MS)

    scene.expiry.start()
    assert scene.expiry.run(now, examined_max=10)
    scene.perform()
    first = len(scene.pending)
    scene.expiry.start()
    while scene.expiry.run(now, examined_max=10):
        scene.perform()
    scene.perform()
    scene.settle()

    assert 0 < first < 4
    assert scene.table.group_ids() == set()
    assert not scene.expiry.run(now)


def test_a_group_that_comes_to_life_during_a_sweep_is_seen_as_it_is() -> None:
    """Each slice looks anew."""
    scene = Scene(GroupSettings(offsets_retention_ms=RETENTION_MS))
    scene.commit(1, group_id="a")
    scene.commit(42)
    scene.settle()
    scene.groups[GROUP] = PlainGroup(empty_since_wall_ms=0)
    now = moment(WALL_MS + RETENTION_MS)
    scene.expiry.start()
    assert scene.expiry.run(now, examined_max=1)

    scene.groups[GROUP] = PlainGroup()
    while scene.expiry.run(now, examined_max=1):
        scene.perform()
    scene.settle()

    assert (scene.committed("a"), scene.committed(GROUP)) == ({}, {("t", 0): 42})


def test_offsets_of_deleted_topics_are_removed() -> None:
    """A topic of the same name that is made later has other records at those offsets."""
    scene = scene_with(PlainGroup(topics=frozenset({"t"})), 1, 2)
    partitions = [OffsetCommitRequestPartition(0, 7)]
    topics = [OffsetCommitRequestTopic("u", partitions=partitions)]
    scene.commit_request(OffsetCommitRequest(GROUP, topics=topics))
    scene.commit_in_transaction(7, 10, 20, 30)

    scene.delete_topics("t", "x")
    scene.commit(99)
    scene.settle()

    assert scene.committed() == scene.reloaded().committed() == {("u", 0): 7, ("t", 0): 99}
    scene.mark(7, is_commit=True)
    assert scene.committed() == {("u", 0): 7, ("t", 0): 99}

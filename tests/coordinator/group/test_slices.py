"""A hundred thousand groups are looked at a few at a time, and never sorted."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ottla.coordinator.group.common.records import CommittedOffset, encode_offset
from ottla.coordinator.group.common.scope import GroupScope
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.offsets.expiry import EXAMINED_PER_SLICE_MAX
from ottla.coordinator.group.offsets.ledger import OffsetLedger, offset_record
from ottla.coordinator.group.shard import GroupShard
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.list_groups import ListGroupsRequest
from tests.coordinator.group.consumer.site import image_of
from tests.coordinator.group.offsets.scene import GROUP, Scene, moment

if TYPE_CHECKING:
    from ottla.coordinator.metadata.image import MetadataImage

GROUPS = 30_000
VALUE = encode_offset(CommittedOffset(5, -1, "", 0))


class CountedId(str):
    """A group's id that counts the operations on it; it is never copied."""

    __slots__ = ()
    touched = 0
    compared = 0

    def __hash__(self) -> int:
        CountedId.touched += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def __lt__(self, other: str) -> bool:
        CountedId.compared += 1
        return super().__lt__(other)


def _reset() -> None:
    CountedId.touched = CountedId.compared = 0


def _shard(settings: GroupSettings | None = None) -> tuple[GroupShard, list[MetadataImage]]:
    """A shard with a commit in each of many groups."""
    images = [image_of({"t": 1, "u": 1})]
    shard = GroupShard(GroupScope(settings or GroupSettings(), lambda: "id"), lambda: images[-1])
    shard.offsets.ledger.keeps_empty = True
    for number in range(GROUPS):
        topic = "u" if number % 100 == 0 else "t"
        shard.offsets.ledger.find_values(CountedId(f"g{number}"), topic)[0] = VALUE
    shard.on_loaded(moment(0))
    return shard, images


def _steps_of(shard: GroupShard, wall_ms: int) -> list[int]:
    """How many ids were touched in each step, until there is nothing due."""
    touched = []
    now = moment(wall_ms)
    while (next_ms := shard.next_deadline_ms()) is not None and next_ms <= now.now_ms:
        _reset()
        for effect in shard.on_deadline(now):
            shard.committed(effect.token, now)  # type: ignore[union-attr]
        touched.append(CountedId.touched)
    return touched


def test_a_sweep_takes_no_step_that_grows_with_the_number_of_groups() -> None:
    """To sort the ids of a hundred thousand groups took an eighth of a second, once per sweep."""
    shard, _images = _shard(GroupSettings(offsets_retention_check_interval_ms=0))
    _reset()

    shard.on_deadline(moment(1))

    assert 0 < CountedId.touched < 12 * EXAMINED_PER_SLICE_MAX < 12 * GROUPS / 2
    assert CountedId.compared == 0


def test_offsets_of_deleted_topics_are_removed_in_slices() -> None:
    """Deleting a topic must not delay the heartbeats of groups that never read it."""
    shard, images = _shard()
    images.append(image_of({"t": 1}))
    _reset()

    effects = shard.on_topics_changed(moment(0))
    for effect in effects:
        shard.committed(effect.token, moment(0))  # type: ignore[union-attr]
    first = CountedId.touched
    rest = _steps_of(shard, 0)

    assert max(first, *rest) < 20 * EXAMINED_PER_SLICE_MAX
    assert len(rest) > 3
    assert len(shard.offsets.group_ids()) == GROUPS - GROUPS // 100


def test_groups_are_listed_one_after_another() -> None:
    """Ten thousand of them at once held up the broker for 35 ms, at every look of a monitor."""
    shard, _images = _shard()
    listing = shard.listing(ListGroupsRequest())
    _reset()

    first = list(islice(listing, 100))

    assert 0 < CountedId.touched < 1_000
    assert CountedId.compared == 0
    listed = [one.group_id for one in (*first, *listing) if one is not None]
    assert len(set(listed)) == len(listed) == GROUPS


def test_groups_that_come_and_go_while_they_are_listed_are_listed_once_or_not_at_all() -> None:
    """A list that failed for it would fail for ever where groups are made all the time."""
    scene = Scene()
    for number in range(10):
        scene.commit(1, group_id=f"g{number}")
    ledger: OffsetLedger = scene.table.ledger
    visits = ledger.visit_ids()

    early = list(islice(visits, 3))
    scene.settle()
    scene.commit(2, group_id="late")
    rest = list(visits)

    assert {*early, *rest} >= {f"g{number}" for number in range(10)}


# What is committed while topics are forgotten.


def test_a_commit_for_a_topic_that_is_there_again_stays() -> None:
    """The slice with its group may come later or have come: the commit stays in both cases."""
    scene = Scene()
    for number in range(3):
        scene.commit(1, 2, group_id=f"g{number}")
    scene.settle()
    scene.table.topic_removal.start(["t"])
    assert scene.table.topic_removal.run(1)

    for number in range(3):
        scene.commit(9, group_id=f"g{number}")
    while scene.table.topic_removal.run(1):
        scene.perform()
    scene.settle()

    for number in range(3):
        assert scene.committed(f"g{number}") == {("t", 0): 9}
        assert scene.reloaded().committed(f"g{number}") == {("t", 0): 9}


def test_a_second_deletion_of_a_topic_removes_its_offsets_again() -> None:
    """Only commits after the last deletion belong to the new topic."""
    scene = Scene()
    scene.commit(1, group_id="a")
    scene.commit(1)
    scene.settle()
    removal = scene.table.topic_removal
    removal.start(["t"])
    removal.run(1)
    scene.commit(2, group_id="a")
    scene.commit(2)
    scene.settle()

    removal.start(["u"])
    scene.commit(3, group_id="a")
    removal.start(["t"])
    scene.commit(4)
    while removal.run(1):
        scene.perform()
    scene.perform()
    scene.settle()

    assert (scene.committed("a"), scene.committed()) == ({}, {("t", 0): 4})
    assert scene.reloaded().committed(GROUP) == {("t", 0): 4}


def test_the_deletion_of_another_topic_leaves_what_was_committed_for_one_that_is_back() -> None:
    """Two deletions, and only the first was of that topic."""
    scene = Scene()
    scene.commit(1)
    scene.settle()
    scene.delete_topics("t")
    scene.table.topic_removal.start(["t"])
    scene.commit(2)
    scene.table.topic_removal.start(["u"])
    while scene.table.topic_removal.run(1):
        scene.perform()
    scene.settle()

    assert scene.committed() == {("t", 0): 2}


def test_an_aborted_commit_does_not_bring_back_what_was_there_for_the_topic_before() -> None:
    """Commits before the deletion are gone, whatever happens to those after it."""
    scene = Scene()
    scene.commit(1)
    scene.settle()
    scene.table.topic_removal.start(["t"])

    scene.commit_in_transaction(7, 2)
    while scene.table.topic_removal.run(1):
        scene.perform()
    scene.mark(7, is_commit=False)

    assert scene.committed() == scene.reloaded().committed() == {}


def test_what_counts_ids_counts_them() -> None:
    """Otherwise the bounds above would hold for any code."""
    _reset()
    ids = {CountedId("a"), CountedId("b")}

    assert sorted(ids) == ["a", "b"]
    assert (CountedId.touched, CountedId.compared) == (2, 1)
    assert offset_record(CountedId("a"), TopicPartition("t", 0), None).value is None

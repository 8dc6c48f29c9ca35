"""Offsets that are deleted: by request, with their group, and in portions."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.offsets.removal import (
    DELETION_BYTES_PER_APPEND_MAX,
    DELETIONS_PER_APPEND_MAX,
)
from ottla.coordinator.outbox import Continuation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_delete import OffsetDeleteResponse
from tests.coordinator.group.offsets.scene import GROUP, PlainGroup, Scene


def test_the_next_coordinator_loads_no_deleted_offsets() -> None:
    """KIP-496: only the named partitions are deleted."""
    scene = Scene()
    scene.commit(1, 2, 3)
    scene.settle()

    ticket = scene.delete("t", 0, 2)
    assert ticket not in scene.answers
    scene.settle()

    assert scene.errors(ticket) == [0, 0]
    assert scene.committed() == scene.reloaded().committed() == {("t", 1): 2}


def test_offsets_of_a_topic_that_is_consumed_stay() -> None:
    """The consumer would go on and commit again, or fall back to one end of the log."""
    scene = Scene()
    scene.commit(1)
    scene.settle()
    scene.groups[GROUP] = PlainGroup(topics=frozenset({"t"}))

    ticket = scene.delete("t", 0)

    assert scene.errors(ticket) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert scene.committed() == {("t", 0): 1}


def test_a_living_group_of_unknown_topics_keeps_its_offsets() -> None:
    """With protocols other than the consumer's the coordinator cannot know what the members
    read."""
    scene = Scene()
    scene.commit(1)
    scene.settle()
    scene.groups[GROUP] = PlainGroup(offset_delete_error=ErrorCode.NON_EMPTY_GROUP)

    ticket = scene.delete("t", 0)

    assert scene.answers[ticket] == OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP)


def test_offsets_of_an_unknown_group_cannot_be_deleted() -> None:
    """A typing error in the group's name must not look like success."""
    scene = Scene()

    ticket = scene.delete("t", 0)

    assert scene.answers[ticket] == OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND)


def test_what_was_never_committed_costs_no_record() -> None:
    """A tombstone without a record before it would only be cleaned away."""
    scene = Scene()
    scene.commit(1)
    scene.settle()

    ticket = scene.delete("t", 5)

    assert (scene.errors(ticket), len(scene.log)) == ([0], 1)


@pytest.mark.parametrize("is_overdue", [True, False])
def test_a_deletion_that_is_not_committed_is_an_error(is_overdue: bool) -> None:
    """The offset is still there, and the tool has to retry."""
    scene = Scene()
    scene.commit(1)
    scene.settle()
    ticket = scene.delete("t", 0)

    if is_overdue:
        scene.overdue()
    else:
        scene.fail(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert scene.answers[ticket] == OffsetDeleteResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert scene.offset() == 1


def test_a_pending_commit_is_deleted_with_the_committed_offsets() -> None:
    """Its record precedes the tombstone; otherwise it would reappear at the next load."""
    scene = Scene()
    scene.commit(1)
    scene.delete("t", 0)

    scene.pending.reverse()
    scene.settle()

    assert scene.committed() == scene.reloaded().committed() == {}


def test_a_commit_after_the_deletion_stays() -> None:
    """A consumer uses the group again while its offsets are being deleted."""
    scene = Scene()
    scene.commit(1)
    scene.settle()
    scene.delete("t", 0)
    scene.commit(2)

    scene.pending.reverse()
    scene.settle()

    assert scene.committed() == scene.reloaded().committed() == {("t", 0): 2}


def test_the_offsets_of_a_deleted_group_are_removed_before_its_own_records() -> None:
    """A crash between two batches must leave a group with offsets, never offsets alone."""
    scene = Scene()
    count = DELETIONS_PER_APPEND_MAX + 1
    scene.commit(*range(count))
    scene.settle()
    outcomes: list[object] = []

    scene.table.removal.remove_group(
        GROUP,
        PlainGroup().tombstones(),
        Continuation(lambda: outcomes.append("deleted"), outcomes.append),
    )
    scene.perform()

    assert [len(append.records) for append in scene.pending] == [DELETIONS_PER_APPEND_MAX, 2]
    assert scene.pending[-1].records[-1] in PlainGroup().tombstones()
    scene.settle()
    assert (outcomes, scene.committed(), scene.table.group_ids()) == (["deleted"], {}, set())


def test_a_group_without_offsets_is_deleted_all_the_same() -> None:
    """Its own record has to go."""
    scene = Scene()
    outcomes: list[object] = []
    continuation = Continuation(lambda: outcomes.append("deleted"), outcomes.append)

    scene.table.removal.remove_group(GROUP, PlainGroup().tombstones(), continuation)
    scene.perform()
    scene.settle()

    assert (outcomes, len(scene.log)) == (["deleted"], 1)


def test_a_group_that_only_exists_in_memory_is_deleted_at_once() -> None:
    """An append without records would never be committed."""
    scene = Scene()
    outcomes: list[object] = []

    scene.table.removal.remove_group(
        GROUP, [], Continuation(lambda: outcomes.append("deleted"), outcomes.append)
    )

    assert outcomes == ["deleted"]


def test_batches_of_deletions_are_small_however_long_the_names() -> None:
    """A batch above max.message.bytes is refused: the group could never be deleted."""
    scene = Scene()
    group_id = "g" * 30_000
    scene.commit(*range(10), group_id=group_id)
    scene.settle()

    scene.table.removal.remove_group(group_id, [])
    scene.perform()

    sizes = [sum(len(record.key) for record in append.records) for append in scene.pending]
    assert len(sizes) == 3
    assert max(sizes) <= DELETION_BYTES_PER_APPEND_MAX
    scene.settle()
    assert scene.committed(group_id) == {}

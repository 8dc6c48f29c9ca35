"""Commits: who may, when they are in force, and what failures mean."""

from __future__ import annotations

import pytest

from ottla.coordinator.effects import LogRecord
from ottla.coordinator.group.common.records import CommittedOffset, decode_offset
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.group.offsets.scene import GROUP, WALL_MS, PlainGroup, Scene


@pytest.mark.requirement("GRP-03", "ARC-12")
def test_a_commit_is_one_record_per_partition() -> None:
    """Readers of the offsets topic see what Kafka would have written."""
    scene = Scene()

    scene.commit(42)

    assert scene.records == [
        LogRecord(
            bytes.fromhex("0001 0001 67 0001 74 00000000"),
            bytes.fromhex("0003 000000000000002a ffffffff 0000 0000018bcfe56800"),
        )
    ]


@pytest.mark.requirement("GRP-04", "GRP-08")
def test_a_commit_is_answered_and_visible_when_it_is_committed() -> None:
    """G-03: shown earlier, it goes back when the coordinator moves."""
    scene = Scene()

    ticket = scene.commit(42)

    assert (scene.errors(ticket), scene.offset()) == (None, -1)
    scene.settle()
    assert (scene.errors(ticket), scene.offset()) == ([ErrorCode.NONE], 42)


@pytest.mark.requirement("GRP-05")
def test_an_overdue_commit_is_answered_and_may_still_come_into_force() -> None:
    """The client looks for the coordinator and commits again; a timeout is never a failure."""
    scene = Scene()
    ticket = scene.commit(42)

    scene.overdue()

    assert scene.errors(ticket) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert scene.offset() == -1
    scene.settle()
    assert scene.offset() == 42


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_refused_append_changes_nothing(inside: ErrorCode, outside: ErrorCode) -> None:
    """The error says where to try again, in words that clients of the coordinator know."""
    scene = Scene()
    scene.commit(1)
    scene.settle()

    ticket = scene.commit(2)
    scene.fail(inside)

    assert (scene.errors(ticket), scene.offset()) == ([outside], 1)
    assert scene.table.group_ids() == {GROUP}


def test_the_later_of_two_commits_wins_whichever_is_reported_first() -> None:
    """Answers may overtake each other, positions may not."""
    scene = Scene()
    tickets = [scene.commit(1), scene.commit(2)]

    scene.pending.reverse()
    scene.settle()

    assert [scene.errors(ticket) for ticket in tickets] == [[0], [0]]
    assert scene.offset() == 2


def test_the_position_may_go_back_where_a_later_commit_says_so() -> None:
    """A reset of the group to the beginning commits a smaller offset."""
    scene = Scene()
    scene.commit(100)
    scene.commit(3)
    scene.settle()

    assert scene.offset() == 3


def test_each_partition_is_judged_for_itself() -> None:
    """One bad partition must not cost the progress of all others."""
    scene = Scene(GroupSettings(offset_metadata_max_bytes=4))
    partitions = [
        OffsetCommitRequestPartition(0, 10, committed_metadata="fits"),
        OffsetCommitRequestPartition(1, 11, committed_metadata="does not"),
        OffsetCommitRequestPartition(-1, 12),
        OffsetCommitRequestPartition(3, 13),
    ]
    topics = [
        OffsetCommitRequestTopic("t", partitions=partitions),
        OffsetCommitRequestTopic("unknown", partitions=[OffsetCommitRequestPartition(0, 14)]),
    ]

    ticket = scene.commit_request(OffsetCommitRequest(GROUP, topics=topics))
    scene.settle()

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert scene.errors(ticket) == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE, unknown, 0, unknown]
    assert scene.committed() == {("t", 0): 10, ("t", 3): 13}


def test_metadata_that_no_record_can_hold_is_refused() -> None:
    """Any length may be allowed by the settings; a string of the log has 15 bits for it."""
    scene = Scene(GroupSettings(offset_metadata_max_bytes=100_000))
    partitions = [
        OffsetCommitRequestPartition(0, 1, committed_metadata="x" * 0x7FFF),
        OffsetCommitRequestPartition(1, 2, committed_metadata="ü" * 0x4000),
    ]

    request = OffsetCommitRequest(
        GROUP, topics=[OffsetCommitRequestTopic("t", partitions=partitions)]
    )
    ticket = scene.commit_request(request)
    scene.settle()

    assert scene.errors(ticket) == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_the_retention_time_of_a_commit_is_stored_with_the_offset() -> None:
    """Requests up to version 4 can contain one; version 1 of the value has the field."""
    scene = Scene()

    scene.commit(42, version=4, retention_time_ms=5_000)

    (append,) = scene.pending
    value = append.records[0].value
    assert value is not None
    assert value[:2] == b"\0\1"
    assert decode_offset(value) == CommittedOffset(42, -1, "", WALL_MS, WALL_MS + 5_000)
    assert scene.reloaded().committed() == {("t", 0): 42}


def test_a_commit_of_nothing_is_answered_at_once() -> None:
    """An empty batch would never be committed, and the client would wait for ever."""
    scene = Scene()

    ticket = scene.commit()

    assert scene.errors(ticket) == []
    assert (scene.log, scene.table.group_ids()) == ([], set())


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ],
)
def test_the_group_says_who_may_commit(error: ErrorCode) -> None:
    """G-02: a member of an earlier generation would move the position back."""
    scene = Scene()
    group = PlainGroup(commit_error=error)
    scene.groups[GROUP] = group

    ticket = scene.commit(
        1, 2, member_id="m", group_instance_id="i", generation_id_or_member_epoch=7
    )

    assert scene.errors(ticket) == [error, error]
    assert (scene.log, group.asked) == ([], [("m", "i", 7, False)])


@pytest.mark.parametrize(("version", "error"), [(9, ErrorCode.NONE), (8, 35)])
@pytest.mark.parametrize("is_stale", [False, True])
def test_only_commits_from_version_9_on_carry_a_member_epoch(
    version: int, error: int, is_stale: bool
) -> None:
    """KIP-848: before version 9 the field was a generation, even if the number is the same."""
    inside = ErrorCode.STALE_MEMBER_EPOCH if is_stale else ErrorCode.NONE
    scene = Scene()
    scene.groups[GROUP] = PlainGroup(commit_error=inside, modern_members=frozenset({"m"}))

    ticket = scene.commit(1, version=version, member_id="m", generation_id_or_member_epoch=7)
    scene.settle()

    assert scene.errors(ticket) == [error or inside]


def test_others_in_the_group_of_such_members_commit_in_the_older_words() -> None:
    """While an application migrates, its classic members are members of the same group."""
    scene = Scene()
    scene.groups[GROUP] = PlainGroup(modern_members=frozenset({"m"}))

    ticket = scene.commit(1, version=7, member_id="old", generation_id_or_member_epoch=7)
    scene.settle()

    assert scene.errors(ticket) == [ErrorCode.NONE]


@pytest.mark.parametrize(
    ("version", "error"), [(9, ErrorCode.GROUP_ID_NOT_FOUND), (8, ErrorCode.ILLEGAL_GENERATION)]
)
def test_a_member_of_a_deleted_group_cannot_commit(version: int, error: ErrorCode) -> None:
    """Its partitions belong to another member by now; it has to join again."""
    scene = Scene()

    ticket = scene.commit(1, version=version, member_id="m", generation_id_or_member_epoch=7)

    assert (scene.errors(ticket), scene.log) == ([error], [])


def test_a_member_of_a_group_of_which_only_offsets_are_known_cannot_commit() -> None:
    """Such a group is empty: it has no members, whatever the generation."""
    scene = Scene()
    scene.commit(1)
    scene.settle()

    ticket = scene.commit(2, member_id="m", generation_id_or_member_epoch=7)

    assert scene.errors(ticket) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.requirement("GRP-03")
def test_another_coordinator_finds_what_was_committed() -> None:
    """The log is all that a new coordinator has."""
    scene = Scene()
    scene.commit(1, 2, 3)
    scene.commit(10)
    scene.settle()

    assert scene.reloaded().committed() == {("t", 0): 10, ("t", 1): 2, ("t", 2): 3}

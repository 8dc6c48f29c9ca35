"""OffsetFetch, in the shapes of its versions."""

from __future__ import annotations

import pytest

from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.coordinator.group.offsets.scene import GROUP, PlainGroup, Scene


def committed_scene() -> Scene:
    """Partition 0 of t at 42 in epoch 5 with a note, partition 1 of u at 7."""
    scene = Scene()
    noted = OffsetCommitRequestPartition(0, 42, 5, committed_metadata="note")
    topics = [
        OffsetCommitRequestTopic("t", partitions=[noted]),
        OffsetCommitRequestTopic("u", partitions=[OffsetCommitRequestPartition(1, 7)]),
    ]
    scene.commit_request(OffsetCommitRequest(GROUP, topics=topics))
    scene.settle()
    return scene


@pytest.mark.requirement("GRP-07", "GRP-08")
@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_is_answered_with_what_it_committed(version: int) -> None:
    """G-11: without the leader epoch a consumer does not notice that the log was truncated."""
    topics = [OffsetFetchRequestTopic("t", [0, 1]), OffsetFetchRequestTopic("x", [9])]

    response = committed_scene().fetch(OffsetFetchRequest(GROUP, topics), version)

    assert response == OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                "t",
                [
                    OffsetFetchResponsePartition(0, 42, 5, "note", 0),
                    OffsetFetchResponsePartition(1, -1, -1, "", 0),
                ],
            ),
            OffsetFetchResponseTopic("x", [OffsetFetchResponsePartition(9, -1, -1, "", 0)]),
        ]
    )
    read = decode(OffsetFetchResponse, version, encode(response, version))
    assert read.topics[0].partitions[0].committed_leader_epoch == (5 if version >= 5 else -1)


@pytest.mark.requirement("GRP-08")
@pytest.mark.parametrize("version", [2, 7])
def test_null_topics_ask_for_everything(version: int) -> None:
    """Administrators do not know what a group reads."""
    response = committed_scene().fetch(OffsetFetchRequest(GROUP, None), version)

    found = [(topic.name, topic.partitions[0].committed_offset) for topic in response.topics]
    assert found == [("t", 42), ("u", 7)]


def test_no_topics_are_not_all_topics() -> None:
    """A consumer without partitions must not be sent those of the others."""
    assert committed_scene().fetch(OffsetFetchRequest(GROUP, []), 7) == OffsetFetchResponse()


@pytest.mark.parametrize("version", [8, 9])
def test_each_group_of_an_offset_fetch_gets_its_own_error_code(version: int) -> None:
    """KIP-709: one unknown group must not hide the offsets of another."""
    asked = [
        OffsetFetchRequestGroup(
            GROUP, topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])]
        ),
        OffsetFetchRequestGroup(GROUP, topics=None),
        OffsetFetchRequestGroup("other", topics=None),
    ]

    response = committed_scene().fetch(OffsetFetchRequest(groups=asked), version)

    noted = OffsetFetchResponseTopics(
        "t", partitions=[OffsetFetchResponsePartitions(0, 42, 5, "note", 0)]
    )
    other = OffsetFetchResponseTopics(
        "u", partitions=[OffsetFetchResponsePartitions(1, 7, -1, "", 0)]
    )
    assert response.groups == [
        OffsetFetchResponseGroup(GROUP, [noted], 0),
        OffsetFetchResponseGroup(GROUP, [noted, other], 0),
        OffsetFetchResponseGroup("other", [], 0),
    ]
    assert decode(OffsetFetchResponse, version, encode(response, version)) == response


def test_an_unknown_group_has_committed_nothing() -> None:
    """To consumers this is the usual first answer, not an error."""
    scene = Scene()

    assert scene.offset() == -1


@pytest.mark.parametrize("error", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_with_another_epoch_is_refused_as_a_whole(error: ErrorCode) -> None:
    """KIP-848: its partitions may have been given to another member since."""
    scene = committed_scene()
    group = PlainGroup(fetch_error=error)
    scene.groups[GROUP] = group
    asked = OffsetFetchRequestGroup(GROUP, "m", 3, topics=None)

    response = scene.fetch(OffsetFetchRequest(groups=[asked]), 9)

    assert response.groups == [OffsetFetchResponseGroup(GROUP, [], error)]
    assert group.asked == [("m", 3)]

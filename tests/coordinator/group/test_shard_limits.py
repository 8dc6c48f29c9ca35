"""What one group wants must not be felt by the other groups of its shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.effects import RequestOrigin
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.offsets.expiry import EXAMINED_PER_SLICE_MAX
from ottla.coordinator.metadata.image import MetadataImage, PartitionState, TopicImage
from ottla.protocol.consumer_protocol import ConsumerSubscription, write_subscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.primitives import STRING_BYTES_MAX
from tests.coordinator.group.classic.scene import Scene, Wish
from tests.coordinator.group.consumer.shard_site import Shard, join_request
from tests.coordinator.group.consumer.site import join

if TYPE_CHECKING:
    from ottla.coordinator.effects import LogRecord

CHECK_MS = 1_000
LIMIT_BYTES = GroupSettings().max_record_bytes


def _scene_with_old_offsets(group_count: int, partition_count: int) -> Scene:
    """Offsets that expire at once, and the deadlines of many members beside them."""
    scene = Scene(
        GroupSettings(offsets_retention_ms=1, offsets_retention_check_interval_ms=CHECK_MS)
    )
    partitions = {index: PartitionState((1,)) for index in range(partition_count)}
    scene.image = MetadataImage("c", topics={"t": TopicImage("t", b"t" * 16, partitions)})
    asked = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=5)
        for index in partitions
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=asked)]
    for number in range(group_count):
        scene.ask(OffsetCommitRequest(group_id=f"old{number}", topics=topics), 8)
        scene.join(Wish(group_id=f"new{number}"))
    return scene


def test_a_sweep_yields_after_each_slice_whatever_the_number_of_members() -> None:
    """The next slice is due at once; in the same call, a million members would block the loop."""
    group_count, partition_count = 20, 1_000
    scene = _scene_with_old_offsets(group_count, partition_count)
    scene.holds_appends = True
    scene.now_ms += CHECK_MS

    scene.perform(scene.shard.on_deadline(scene.moment))

    examined = sum(len(append.records) for append in scene.open)
    assert 0 < examined <= EXAMINED_PER_SLICE_MAX
    for _ in range(group_count):
        scene.perform(scene.shard.on_deadline(scene.moment))
    assert sum(len(append.records) for append in scene.open) == group_count * partition_count


def test_no_committed_offset_expires_while_the_wall_clock_is_in_doubt() -> None:
    """S-18: after a clock step of a month, groups would start over or skip unread records."""
    scene = _scene_with_old_offsets(1, 10)
    scene.holds_appends = True
    scene.now_ms += CHECK_MS

    doubtful = scene.moment._replace(is_wall_trusted=False)
    scene.perform(scene.shard.on_deadline(doubtful))
    kept = not scene.open
    scene.now_ms += CHECK_MS
    scene.perform(scene.shard.on_deadline(scene.moment))

    assert kept
    assert sum(len(append.records) for append in scene.open) == 10


def _metadata(size_bytes: int) -> bytes:
    return write_subscription(ConsumerSubscription(["t"], user_data=bytes(size_bytes)), 1)


def _size_bytes(records: list[LogRecord]) -> int:
    return sum(len(key) + len(value or b"") for key, value in records)


def test_a_classic_member_that_cannot_be_written_is_turned_away_by_a_consumer_group() -> None:
    """G-10: the shard is loaded again when an append of such a group fails. One client that asks
    again and again would keep all groups of the shard from working."""
    shard = Shard()
    shard.consumer(join("new"))
    before = list(shard.log)

    answer = shard.join_classic("", metadata=_metadata(LIMIT_BYTES))
    fitting = shard.join_classic("", metadata=_metadata(LIMIT_BYTES // 3))

    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert fitting.error_code == ErrorCode.NONE
    assert _size_bytes(shard.log[len(before) :]) < LIMIT_BYTES


def test_a_classic_group_that_cannot_be_written_as_another_stays_what_it_is() -> None:
    """A consumer group keeps all that its members support, and not the chosen protocol alone: what
    was small enough for one record may be too much for the other kind's."""
    shard = Shard()
    protocols = ("range", "roundrobin", "sticky", "own")
    request = join_request("", metadata=_metadata(LIMIT_BYTES // 3), protocols=protocols)
    ticket = shard.ask(request, 3)
    shard.advance(1)
    joined = shard.answers[ticket]
    shard.sync(joined, {joined.member_id: [0, 1, 2, 3]})
    before = list(shard.log)

    refused = shard.consumer(join("new"))

    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.log == before
    assert isinstance(shard.group, ClassicGroup)
    assert shard.heartbeat(joined.member_id, joined.generation_id) is ErrorCode.NONE


# Names.


@pytest.mark.parametrize("api_version", [3, 9])
def test_a_classic_member_is_given_an_id_that_can_be_written_in_a_consumer_group(
    api_version: int,
) -> None:
    """G-10: an id that begins with a client id of 32 KiB fits neither a record nor an answer, and
    the shard is loaded again for each request that finds it out."""
    shard = Shard()
    shard.consumer(join("new"))
    effects = shard.shard.handle(
        join_request(""),
        RequestOrigin("c" * STRING_BYTES_MAX, "/host", api_version),
        77,
        shard.moment,
    )
    shard.perform(effects)

    assert len(shard.answers[77].member_id) < 300

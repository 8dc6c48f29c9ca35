"""Summaries of a shard's groups and offsets for metrics; read only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.states import ClassicGroupState
from ottla.coordinator.group.common.records import decode_offset
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.coordinator.group.common.membership import Group
    from ottla.coordinator.group.shard import GroupShard


class GroupSummary(NamedTuple):
    """One group at this moment; ``state`` is Kafka's name."""

    group_id: str
    state: str
    member_count: int


class PartitionCommit(NamedTuple):
    """A committed offset of one partition."""

    group_id: str
    topic_partition: TopicPartition
    offset: int


def group_summaries(shard: GroupShard) -> Iterator[GroupSummary]:
    """All groups of the shard; one with nothing but offsets is empty.

    The caller may run other work between two of them: a group deleted meanwhile may be left out."""
    for group in list(shard.groups.values()):
        yield GroupSummary(group.group_id, group.state_name, _member_count(group))
    for group_id in shard.offsets.group_ids() - shard.groups.keys():
        yield GroupSummary(group_id, ClassicGroupState.EMPTY.value, 0)


def partition_commits(shard: GroupShard) -> Iterator[PartitionCommit]:
    """All committed offsets of the shard, each group's as they are when its turn comes."""
    ledger = shard.offsets.ledger
    for group_id in ledger.group_ids():
        topic_partitions = [
            (TopicPartition(topic, index), value)
            for topic, values in ledger.committed(group_id).items()
            for index, value in values.items()
        ]
        for topic_partition, value in topic_partitions:
            committed = decode_offset(value)
            if committed is not None:
                yield PartitionCommit(group_id, topic_partition, committed.offset)


def _member_count(group: Group) -> int:
    if isinstance(group, ClassicGroup):
        return len(group.roster.members)
    return len(group.state.members) if isinstance(group, ConsumerGroup) else 0

"""How the groups of a shard stand, for whoever watches them; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.states import GroupState
from ottla.coordinator.group.common.records import decode_offset
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.coordinator.group.common.membership import Group
    from ottla.coordinator.group.shard import GroupShard


class GroupStanding(NamedTuple):
    """One group at this moment. ``state`` is Kafka's word for it."""

    group_id: str
    state: str
    member_count: int


class CommittedPlace(NamedTuple):
    """An offset that is committed, for one partition."""

    group_id: str
    place: TopicPartition
    offset: int


def standings(shard: GroupShard) -> Iterator[GroupStanding]:
    """All groups of the shard; one of which only offsets are known is empty.

    Other things may happen between two of them: a group that goes meanwhile may be left out."""
    for group in list(shard.groups.values()):
        yield GroupStanding(group.group_id, group.state_name, _member_count(group))
    for group_id in shard.offsets.group_ids() - shard.groups.keys():
        yield GroupStanding(group_id, GroupState.EMPTY.value, 0)


def committed_places(shard: GroupShard) -> Iterator[CommittedPlace]:
    """All committed offsets of the shard, those of one group as they are when its turn comes."""
    ledger = shard.offsets.ledger
    for group_id in ledger.group_ids():
        places = [
            (TopicPartition(topic, index), value)
            for topic, values in ledger.committed(group_id).items()
            for index, value in values.items()
        ]
        for place, value in places:
            committed = decode_offset(value)
            if committed is not None:
                yield CommittedPlace(group_id, place, committed.offset)


def _member_count(group: Group) -> int:
    if isinstance(group, ClassicGroup):
        return len(group.roster.members)
    return len(group.state.members) if isinstance(group, ConsumerGroup) else 0

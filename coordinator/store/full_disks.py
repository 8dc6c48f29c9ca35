"""What a broker says of disks that are full: an ephemeral znode, there as long as one is, and then
for a while to say that there is room again.

It says how much room each replica there has, not each directory: the controller does not know
where a replica lies.
"""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.coordinator.store import paths, znode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# More would not fit into a znode: then all replicas of the broker count as those on its worst disk.
NAMED_MAX = 20_000
_NOTHING: Mapping[TopicPartition, Room] = MappingProxyType({})


class Room(IntEnum):
    """How much a directory can still take. ``LOW``: less than the floor is free, so that writes of
    clients are refused while replication goes on. ``NONE``: it has refused an append."""

    ENOUGH = 0
    LOW = 1
    NONE = 2


class RoomReport(NamedTuple):
    """``others``: the room of every replica that is not among ``partitions``, and of new ones."""

    others: Room = Room.ENOUGH
    partitions: Mapping[TopicPartition, Room] = _NOTHING

    def of(self, partition: TopicPartition) -> Room:
        """The room of one replica on that broker."""
        return self.partitions.get(partition, self.others)

    @property
    def is_full(self) -> bool:
        """Whether a replica lacks room; otherwise the report says that all have it again."""
        return any(room is not Room.ENOUGH for room in (self.others, *self.partitions.values()))


def path_of(node_id: int) -> str:
    """Where that broker's report stands."""
    return f"{paths.FULL_DISKS}/{node_id}"


def report_on(directories: Iterable[tuple[int, Sequence[TopicPartition]]]) -> RoomReport | None:
    """What to say of these directories and the replicas in each; None if all have room.

    What is listed first is a level of ``Room``; a broker that is about to stop may have none."""
    known = [(Room(level), inside) for level, inside in directories]
    if all(room is Room.ENOUGH for room, _ in known):
        return None
    others = min(room for room, _ in known)
    named = {one: room for room, inside in known if room is not others for one in inside}
    if len(named) > NAMED_MAX:
        return RoomReport(max(room for room, _ in known))
    return RoomReport(others, named)


def build(report: RoomReport) -> bytes:
    """The znode's payload."""
    rooms: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for partition, room in sorted(report.partitions.items()):
        rooms[str(int(room))][partition.topic].append(partition.partition)
    return znode.build({"version": 1, "others": int(report.others), "rooms": rooms})


def parse(data: bytes) -> RoomReport | None:
    """None if it cannot be understood."""
    value = znode.parse(data)
    try:
        named = {
            TopicPartition(str(topic), index): Room(int(room))
            for room, topics in value["rooms"].items()
            for topic, indexes in topics.items()
            for index in znode.ids_of(indexes)
        }
        return RoomReport(Room(int(value["others"])), named)
    except (KeyError, ValueError, TypeError, AttributeError):
        return None

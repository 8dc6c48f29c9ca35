"""A broker's report of full disks: an ephemeral znode that exists while a disk is full, and for a
while afterwards to report that there is space again.

It reports the space for each replica, not for each directory: the controller does not know in which
directory a replica is.
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

# More would not fit into a znode: then all replicas of the broker count as on its fullest disk.
NAMED_MAX = 20_000
_NOTHING: Mapping[TopicPartition, Room] = MappingProxyType({})


class Room(IntEnum):
    """The free space of a directory. ``LOW``: less than the floor is free, so the broker refuses
    writes of clients while replication continues. ``NONE``: the disk has refused an append."""

    ENOUGH = 0
    LOW = 1
    NONE = 2


class RoomReport(NamedTuple):
    """``others``: the space for every replica that is not in ``partitions``, and for new ones."""

    others: Room = Room.ENOUGH
    partitions: Mapping[TopicPartition, Room] = _NOTHING

    def of(self, partition: TopicPartition) -> Room:
        """Return the space for one replica on that broker."""
        return self.partitions.get(partition, self.others)

    @property
    def is_full(self) -> bool:
        """Whether a replica lacks space; otherwise the report says that all have it again."""
        return any(room is not Room.ENOUGH for room in (self.others, *self.partitions.values()))


def path_of(node_id: int) -> str:
    """Return the path of that broker's report."""
    return f"{paths.FULL_DISKS}/{node_id}"


def report_on(directories: Iterable[tuple[int, Sequence[TopicPartition]]]) -> RoomReport | None:
    """Return the report about these directories and the replicas in each; None if all have space.

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
    """Return the znode's payload."""
    rooms: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for partition, room in sorted(report.partitions.items()):
        rooms[str(int(room))][partition.topic].append(partition.partition)
    return znode.build({"version": 1, "others": int(report.others), "rooms": rooms})


def parse(data: bytes) -> RoomReport | None:
    """Parse a report; None if it cannot be understood."""
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

"""Maps an event to a broker and partition. Pure.

A partitioner chooses an index in the list of (broker id, partition), sorted. A broker is the leader
of the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class BrokerPartition(NamedTuple):
    """A partition and its leader; sorted by broker."""

    broker: int
    partition: int


def sorted_partitions(leaders: Mapping[int, int]) -> list[BrokerPartition]:
    """Return a topic's list, from the leader of each partition that has one."""
    return sorted(BrokerPartition(leader, one) for one, leader in leaders.items() if leader >= 0)


def choose(partitioner: Any, key: object, known: Sequence[BrokerPartition]) -> BrokerPartition:
    """Call the partitioner. Raises ValueError for an index outside of the list."""
    index = partitioner.partition(key, len(known))
    if not isinstance(index, int) or not 0 <= index < len(known):
        raise ValueError(
            f"the partitioner chose {index!r} of {len(known)} partitions; it has to choose an "
            f"index from 0 to {len(known) - 1}"
        )
    return known[index]


def by_broker(
    routed: Iterable[tuple[BrokerPartition, str, Any]],
) -> dict[int, dict[str, dict[int, list[Any]]]]:
    """Group items by broker, topic and partition, each list in order."""
    found: dict[int, dict[str, dict[int, list[Any]]]] = {}
    for (broker, partition), topic, item in routed:
        topics = found.setdefault(broker, {})
        topics.setdefault(topic, {}).setdefault(partition, []).append(item)
    return found

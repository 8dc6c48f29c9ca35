"""Decides where the replicas of a broker go that is to be taken out of a cluster. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.cluster.metadata import TopicView


class NoRoom(ValueError):
    """A partition has as many replicas as brokers are left."""


def drained(
    topics: Iterable[TopicView], node_id: int, targets: Mapping[int, str | None]
) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of each partition that has one on the broker.

    A replica goes to the target that has the fewest replicas, and first to a rack that holds none
    of the partition's others. It takes the place of the old one in the list, so that each preferred
    leader moves with it.

    Args:
        topics: All topics of the cluster.
        node_id: The broker.
        targets: The rack, None if unknown, of each broker that may take replicas.

    Raises:
        NoRoom: A partition has a replica on each target already.
    """
    views = list(topics)
    counts = Counter(
        replica
        for topic in views
        for partition in topic.partitions.values()
        for replica in partition.replicas
    )
    moves: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in views:
        for index, partition in sorted(topic.partitions.items()):
            if node_id not in partition.replicas:
                continue
            where = TopicPartition(topic.name, index)
            others = [replica for replica in partition.replicas if replica != node_id]
            free = [target for target in targets if target not in partition.replicas]
            if not free:
                count = "1 replica" if not others else f"{len(others) + 1} replicas"
                room = "1 other broker" if len(targets) == 1 else f"{len(targets)} other brokers"
                raise NoRoom(
                    f"topic {where.topic!r} partition {index} has {count}, and "
                    + (f"only {room} can take one" if targets else "no other broker can take it")
                )
            racks = {targets.get(other) for other in others}
            chosen = min(free, key=lambda one: (targets[one] in racks, counts[one], one))
            counts[chosen] += 1
            moves[where] = tuple(
                chosen if replica == node_id else replica for replica in partition.replicas
            )
    return moves

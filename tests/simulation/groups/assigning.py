"""What leaders of classic groups compute: round robin, and a cooperative one that is sticky.

Every leader computes the same assignment from the same members, as real assignors do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.consumer_protocol import (
    ConsumerAssignment,
    OwnedPartitions,
    read_subscription,
    write_assignment,
)
from ottla.protocol.messages.sync_group import SyncGroupRequestAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.simulation.history import Partition


def by_topic(partitions: Iterable[Partition]) -> list[OwnedPartitions]:
    """Partitions by topic, as subscriptions and assignments list them."""
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    return [OwnedPartitions(*entry) for entry in numbers.items()]


def assign(
    members: Sequence[Any], partitions: Sequence[Partition], *, is_cooperative: bool
) -> list[SyncGroupRequestAssignment]:
    """The leader's part of SyncGroup, from its JoinGroup answer's members."""
    ordered = sorted(members, key=lambda one: one.group_instance_id or one.member_id)
    if is_cooperative:
        owned = {one.member_id: _owned(one.metadata) for one in ordered}
        shares = share(owned, partitions)
    else:
        shares = {
            one.member_id: set(partitions[place :: len(ordered)])
            for place, one in enumerate(ordered)
        }
    return [
        SyncGroupRequestAssignment(
            member_id, write_assignment(ConsumerAssignment(by_topic(mine)), 0)
        )
        for member_id, mine in shares.items()
    ]


def _owned(metadata: bytes) -> set[Partition]:
    subscription, _version = read_subscription(bytes(metadata))
    return {
        (topic.topic, number)
        for topic in subscription.owned_partitions
        for number in topic.partitions
    }


def share(
    owned: Mapping[str, set[Partition]], partitions: Sequence[Partition]
) -> dict[str, set[Partition]]:
    """An even assignment with little movement; a partition that another member still has is
    unassigned in this round (KIP-429)."""
    quota, extra = divmod(len(partitions), len(owned))
    by_size = sorted(owned, key=lambda member_id: -len(owned[member_id]))
    shares: dict[str, set[Partition]] = {}
    taken: set[Partition] = set()
    for index, member_id in enumerate(by_size):
        kept = sorted((owned[member_id] & set(partitions)) - taken)[: quota + (index < extra)]
        shares[member_id] = set(kept)
        taken |= shares[member_id]
    rest = [partition for partition in partitions if partition not in taken]
    for index, member_id in enumerate(by_size):
        while len(shares[member_id]) < quota + (index < extra):
            shares[member_id].add(rest.pop(0))
    return {
        member_id: {
            partition
            for partition in shares[member_id]
            if not any(partition in owned[other] for other in owned if other != member_id)
        }
        for member_id in owned
    }

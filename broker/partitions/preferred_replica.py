"""Selects the preferred replica for a consumer from the leader's followers (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.policy.replica_choice import LEADER, Candidate, nearest_replica

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.partitions.partition import PartitionRuntime


def nearest_to(
    rack: str, metadata: MetadataCache, node_id: int
) -> Callable[[PartitionRuntime, int], int]:
    """Return the function that selects a replica for consumers in that rack."""
    brokers = metadata.image.brokers
    own = brokers.get(node_id)

    def nearest(partition: PartitionRuntime, offset: int) -> int:
        leading = partition.replica.leading
        if leading is None:
            return LEADER
        candidates = [
            Candidate(
                follower.node_id,
                brokers[follower.node_id].rack,
                follower.told_watermark,
                follower.log_start_offset,
                follower.log_end_offset,
            )
            for follower in leading.followers.values()
            if follower.node_id in brokers and follower.node_id in leading.in_sync.committed
        ]
        return nearest_replica(rack, None if own is None else own.rack, offset, candidates)

    return nearest

"""Decides which member held what before a rebalance, from the members' claims. Pure.

A member that was away may still claim a partition that was reassigned since. The later generation
wins; two claims of the same generation contradict each other, and neither counts (KIP-792).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.protocol.ids import TopicPartition


class OwnedClaim(NamedTuple):
    """The partitions that one member claims to have held, and in which generation."""

    member_id: str
    partitions: Iterable[TopicPartition]
    generation: int


def rightful_owners(claims: Iterable[OwnedClaim]) -> dict[TopicPartition, str]:
    """Return the owner of each partition; contested partitions are left out."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, partitions, generation in claims:
        for partition in dict.fromkeys(partitions):
            known = best.get(partition)
            if known is None or generation > known[0]:
                best[partition] = (generation, member_id)
            elif generation == known[0]:
                best[partition] = (generation, None)
    return {
        partition: member_id
        for partition, (_generation, member_id) in best.items()
        if member_id is not None
    }


def without_claimed(
    found: Mapping[str, Iterable[TopicPartition]],
    claims: Iterable[OwnedClaim],
    owners: Mapping[TopicPartition, str],
) -> dict[str, list[TopicPartition]]:
    """Return the division without partitions that another member still holds (KIP-429).

    The member that claims such a partition gives it up when its assignment lacks it, and joins
    again; then the partition is free. A rightful owner keeps what it has, whatever other members
    claim."""
    claimants: dict[TopicPartition, set[str]] = {}
    for claim in claims:
        for partition in claim.partitions:
            claimants.setdefault(partition, set()).add(claim.member_id)
    return {
        member_id: [
            partition
            for partition in partitions
            if owners.get(partition) == member_id or claimants.get(partition, set()) <= {member_id}
        ]
        for member_id, partitions in found.items()
    }

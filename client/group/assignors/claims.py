"""Who held what before a rebalance, as far as members can be believed. Pure.

A member that was away may still claim what another has been given since. The later generation is
right; two claims of one generation contradict each other, and then neither counts (KIP-792).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.protocol.ids import TopicPartition


class OwnedClaim(NamedTuple):
    """What one member says to have held in which generation."""

    member_id: str
    partitions: Iterable[TopicPartition]
    generation: int


def rightful_owners(claims: Iterable[OwnedClaim]) -> dict[TopicPartition, str]:
    """The one member that each partition belonged to; contested ones are left out."""
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
    """The division without what would move while another member still holds it (KIP-429).

    Who claims it gives it up when it sees that it is not its any more, and joins again; then it is
    free. A member that is the rightful owner keeps what it has, whatever somebody else believes."""
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

"""The oracles of owning: no partition is two members' at the same time, and epochs only grow."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.groups.claims import Claim
    from tests.simulation.groups.evidence import GroupEvidence, Told
    from tests.simulation.history import Partition


def overlapping_claims(evidence: GroupEvidence) -> list[str]:
    """Two would work on the same records, and each undo what the other commits."""
    by_partition: dict[tuple[str, Partition], list[Claim]] = defaultdict(list)
    for claim in evidence.claims.all:
        by_partition[claim.owner.group, claim.partition].append(claim)
    found = []
    for (group, partition), claims in by_partition.items():
        claims.sort(key=lambda claim: claim.since_s)
        last = claims[0]
        for claim in claims[1:]:
            if (
                claim.since_s < last.end_s
                and claim.owner != last.owner
                and claim.end_s > claim.since_s
            ):
                found.append(
                    f"groups: {partition} of {group} is {last.owner.name}'s from "
                    f"{last.since_s:.3f} to {last.end_s:.3f} and {claim.owner.name}'s from "
                    f"{claim.since_s:.3f} on"
                )
            if claim.end_s > last.end_s:
                last = claim
    return found


def epochs_that_went_back(evidence: GroupEvidence) -> list[str]:
    """A member whose epoch goes back is fenced without cause; a group whose epoch goes back is two
    groups.

    An empty group loses its epoch when the next member to join speaks the other protocol, so in
    groups with both only a member's own epochs are compared.
    """
    by_group: dict[str, list[Told]] = defaultdict(list)
    for told in evidence.told:
        by_group[told.group].append(told)
    found = []
    for group, all_told in by_group.items():
        is_consumer = group in evidence.consumer_groups
        for index, later in enumerate(all_told):
            since = evidence.last_loss(later.answered)
            earlier = [
                told.epoch
                for told in all_told[:index]
                if since < told.asked
                and told.answered < later.asked
                and (told.membership == later.membership or (is_consumer and later.is_join))
            ]
            if since < later.asked and later.epoch < max(earlier, default=0):
                found.append(
                    f"groups: {later.member_id} of {group} has epoch {later.epoch} after "
                    f"{max(earlier)}"
                )
    return found

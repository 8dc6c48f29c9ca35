"""Which replica a consumer is sent to: one in its own rack that is as good as the leader (KIP-392).

Only members of the ISR that live and are known to have what is asked for (hazard R-31).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

LEADER = -1


class Candidate(NamedTuple):
    """A live follower in the ISR; ``high_watermark`` is the last that it was told."""

    node_id: int
    rack: str | None
    high_watermark: int
    log_start_offset: int
    log_end_offset: int


def nearest_replica(
    rack: str, leader_rack: str | None, fetch_offset: int, candidates: Iterable[Candidate]
) -> int:
    """The follower that a consumer in that rack should read from, -1 for the leader.

    Of several the one that has most; of equal ones the lowest id, so that a consumer that asks
    again is not sent about."""
    if not rack or rack == leader_rack:
        return LEADER
    near = [
        one
        for one in candidates
        if one.rack == rack and one.log_start_offset <= fetch_offset <= one.high_watermark
    ]
    if not near:
        return LEADER
    return min(near, key=lambda one: (-one.log_end_offset, one.node_id)).node_id

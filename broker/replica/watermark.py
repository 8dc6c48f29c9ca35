"""Computes the offsets that bound reads: high watermark and last stable offset.

The high watermark is the first offset that is not known to be on the whole maximal ISR. It only
grows while a replica leads (REP-14); file positions are derived from it, never the reverse (hazard
R-26).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class FetchIsolation(IntEnum):
    """How far a reader may read; the first two are the protocol's, the last is for followers."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


def raised_watermark(current: int, leader_end_offset: int, ends: Sequence[int]) -> int:
    """The new high watermark: the minimum of the counted log ends, never below the current one.

    A replica that has not fetched in this epoch counts as -1 and so holds it."""
    reached = min(leader_end_offset, min(ends)) if ends else leader_end_offset
    return max(current, reached)


def effective_min_insync(min_insync_replicas: int, replication_factor: int) -> int:
    """How many replicas must be in sync before a record counts as committed.

    At most the replication factor: otherwise a topic with fewer replicas would never show
    records."""
    return min(min_insync_replicas, replication_factor)


def clamped_watermark(known: int, log_start_offset: int, log_end_offset: int) -> int:
    """The high watermark to begin with after a start, or after the log was cut."""
    assert log_start_offset <= log_end_offset
    return min(max(known, log_start_offset), log_end_offset)

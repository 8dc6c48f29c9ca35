"""The offsets that bound what a reader may see, as arithmetic.

The high watermark is the first offset that is not known to be on the whole maximal ISR. It only
grows while a replica leads (REP-14); positions in files are derived from it and never the other way
round (hazard R-26).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class FetchIsolation(IntEnum):
    """How far a reader may look. The first two are the wire's; followers read to the log end."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


def raised_watermark(current: int, leader_end_offset: int, ends: Sequence[int]) -> int:
    """The high watermark after the log ends of all that count: their minimum, never going back.

    A replica that has not been heard in this epoch counts as -1 and thereby holds it."""
    reached = min(leader_end_offset, min(ends)) if ends else leader_end_offset
    return max(current, reached)


def effective_min_insync(min_insync_replicas: int, replication_factor: int) -> int:
    """How many must be in sync before anything counts as committed.

    A topic with fewer replicas than it demands would otherwise never show a record."""
    return min(min_insync_replicas, replication_factor)


def clamped_watermark(known: int, log_start_offset: int, log_end_offset: int) -> int:
    """The high watermark to begin with after a start, or after the log was cut."""
    assert log_start_offset <= log_end_offset
    return min(max(known, log_start_offset), log_end_offset)


def last_stable_offset(high_watermark: int, first_unstable_offset: int | None) -> int:
    """Where read_committed readers stop: before the first transaction that is still undecided."""
    if first_unstable_offset is None:
        return high_watermark
    return min(high_watermark, first_unstable_offset)

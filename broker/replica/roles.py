"""What a replica can be to its partition, and what it says when that changes."""

from __future__ import annotations

from enum import Enum, auto

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple


class Role(Enum):
    """What the replica is to its partition."""

    NONE = auto()
    LEADER = auto()
    FOLLOWER = auto()


class LogBounds(NamedTuple):
    """What a log says of itself when it is opened; the watermark is None if it was not saved."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None = None


class RoleChange(NamedTuple):
    """The answer to what the controller wants.

    ``is_new_epoch``: requests that wait here must be asked again, a fetcher must start over, and
    the leader epochs must be on the disk before anything is served (hazards R-04, R-05)."""

    error: ErrorCode = ErrorCode.NONE
    is_new_epoch: bool = False
    watermark_moved: bool = False

"""The roles of a replica, and the result of a role change."""

from __future__ import annotations

from enum import Enum, auto

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple


class Role(Enum):
    """The role of a replica in its partition."""

    NONE = auto()
    LEADER = auto()
    FOLLOWER = auto()


class LogBounds(NamedTuple):
    """The bounds of a log when it is opened; the watermark is None if it was not saved."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None = None


class RoleChange(NamedTuple):
    """The result of a role change by the controller.

    ``is_new_epoch``: parked requests must be re-evaluated, the fetcher must start over, and the
    leader epochs must be durable before anything is served (hazards R-04, R-05)."""

    error: ErrorCode = ErrorCode.NONE
    is_new_epoch: bool = False
    watermark_moved: bool = False

"""What becomes of a request to move a replica to another data directory of its broker (KIP-113).

Decisions only: ``directories/replica_moves.py`` looks at the directories and makes the copies.
The codes and their order are those of Kafka's AlterReplicaLogDirs. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# ".", 32 digits and "-future" behind the name of the partition's directory.
_MARK_BYTES = 40
_NAME_BYTES_MAX = 255


class ReplicaLocation(NamedTuple):
    """A replica as it is now. ``current`` and ``future``: the data directories of its log and of
    the copy that is being made of it, None where there is none."""

    name: str
    is_in_cluster: bool
    is_offline: bool
    is_served: bool
    current: str | None
    future: str | None


class MoveDecision(NamedTuple):
    """What to do, in this order, and what to answer. ``remembers``: the replica is to be made in
    that directory once it comes here."""

    error: ErrorCode = ErrorCode.NONE
    cancels: bool = False
    remembers: bool = False
    begins: bool = False


def decide_move(
    replica: ReplicaLocation, target: str, directories: Mapping[str, bool]
) -> MoveDecision:
    """``directories``: the path of each data directory, and whether it works."""
    if len(replica.name) + _MARK_BYTES > _NAME_BYTES_MAX:
        return MoveDecision(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if target not in directories:
        return MoveDecision(ErrorCode.LOG_DIR_NOT_FOUND)
    if not directories[target] or replica.is_offline:
        return MoveDecision(ErrorCode.KAFKA_STORAGE_ERROR)
    cancels = replica.is_served and replica.future not in (None, target)
    remembers = target not in (replica.current, replica.future)
    if not replica.is_served:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replica.is_in_cluster:
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        return MoveDecision(error, remembers=remembers)
    if target in (replica.current, replica.future):
        return MoveDecision(cancels=cancels)
    if not all(directories.values()):
        # The replica may have a copy on the directory that is missing.
        return MoveDecision(ErrorCode.KAFKA_STORAGE_ERROR, cancels, remembers)
    return MoveDecision(cancels=cancels, remembers=remembers, begins=True)

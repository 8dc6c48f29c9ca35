"""Values for changes of an assignment, a member's phase and its settings. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition


class AssignmentChange(NamedTuple):
    """What the application's task has to do before the member continues, in this order.

    ``lost`` partitions may already belong to another member: nothing may be committed for them.
    ``revoked`` ones belong to this member until the change is done."""

    lost: tuple[TopicPartition, ...] = ()
    revoked: tuple[TopicPartition, ...] = ()
    assigned: tuple[TopicPartition, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.lost or self.revoked or self.assigned)


def change_of(
    *,
    lost: Iterable[TopicPartition] = (),
    revoked: Iterable[TopicPartition] = (),
    assigned: Iterable[TopicPartition] = (),
) -> AssignmentChange | None:
    """Return the change with sorted partitions; None if it is empty."""
    change = AssignmentChange(tuple(sorted(lost)), tuple(sorted(revoked)), tuple(sorted(assigned)))
    return None if change.is_empty else change


class MembershipPhase(Enum):
    """A member's phase. The value completes "the member is ..."."""

    OUT = "not in the group"
    # Waits until the application has given up what it must before the member may join.
    YIELDING = "giving up partitions"
    JOINING = "joining"
    # Classic only: the generation is known, its assignment is not.
    SYNCING = "waiting for its assignment"
    STABLE = "in the group"
    LEAVING = "leaving"
    # Has left because the application does not poll; joins again when it polls.
    SILENT = "out of the group until the application polls"
    FAILED = "refused"


class NextAction(Enum):
    """What the membership task does after an answer."""

    GO_ON = "go on"
    AGAIN = "pause, then go on"
    ELSEWHERE = "find the coordinator again after a pause"


class LogNote(NamedTuple):
    """One log line."""

    text: str
    is_warning: bool = False


class MembershipRefusal(NamedTuple):
    """Why the member can never join with these settings; ``code`` is NONE if the coordinator could
    not be asked."""

    code: ErrorCode
    text: str


class MemberSettings(NamedTuple):
    """The part of the configuration that a member uses."""

    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    max_poll_interval_ms: int = 300_000

"""What the members of one group have in common, and the errors that remove them from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.history import Partition

# Errors that tell a member that its membership is outdated.
LOST_PLACE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
LOST_ID = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
# The clocks of brokers and members differ by less.
CLOCKS_AGREE = 0.998


class Kind(Enum):
    """Which protocols the members of a group speak."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    # Each life of a member speaks the one or the other: the group migrates to and fro.
    MIXED = "mixed"


@dataclass(eq=False, slots=True)
class Terms:
    """Of one group. Of times of members that speak KIP-848, ``consumer_session_timeout_ms`` is the
    broker's."""

    group: str
    partitions: list[Partition]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    kind: Kind = Kind.CLASSIC
    is_cooperative: bool = False
    consumer_session_timeout_ms: int = 45_000
    consumer_rebalance_timeout_ms: int = 45_000

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.partitions})

    def lease_s(self, lively_s: float, calm_s: float) -> float:
        """Until when a classic member is safe: its session counts from the last sign of life that
        was answered, a round from the last answer that knew of none."""
        session_s, round_s = self.session_timeout_ms / 1_000, self.rebalance_timeout_ms / 1_000
        return min(lively_s + session_s * CLOCKS_AGREE, calm_s + round_s * CLOCKS_AGREE)

    def consumer_lease_s(self, lively_s: float, calm_s: float) -> float:
        """The same of a KIP-848 member, whose time to revoke counts from the last answer that shows
        that there is nothing to revoke: others come with an assignment that has not grown."""
        session_s = self.consumer_session_timeout_ms / 1_000
        revocation_s = self.consumer_rebalance_timeout_ms / 1_000
        return min(lively_s + session_s * CLOCKS_AGREE, calm_s + revocation_s * CLOCKS_AGREE)

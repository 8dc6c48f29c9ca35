"""Replication throttles (KIP-73): how much bandwidth a reassignment may use.

An operator names the replicas whose moving is to be slow, as leaders and as followers, and a rate
for each broker and direction. Replicas in the ISR are exempt: held back they would leave it, and
the throttle would cost what it is to protect (hazard R-17).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.quotas.token_bucket import TokenBucket
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

UNLIMITED = (1 << 63) - 1
# A rate of nothing at all: look again after that time.
CLOSED_MS = 1_000.0
EVERY_REPLICA = "*"


class ThrottledReplicas(NamedTuple):
    """The replicas of one topic that a throttle covers."""

    covers_all: bool
    replicas: frozenset[tuple[int, int]]

    def covers(self, partition: int, node_id: int) -> bool:
        """Whether that broker's replica of the partition is one of them."""
        return self.covers_all or (partition, node_id) in self.replicas


def throttled_replicas(entries: Sequence[str]) -> ThrottledReplicas | None:
    """The setting's entries, ``partition:broker`` or one star; None if it is empty."""
    if not entries:
        return None
    if EVERY_REPLICA in entries:
        return ThrottledReplicas(True, frozenset())
    pairs = (entry.split(":") for entry in entries)
    return ThrottledReplicas(False, frozenset((int(part), int(node)) for part, node in pairs))


class ReplicationThrottle:
    """The bytes of throttled replicas that one broker sends, or fetches."""

    def __init__(self) -> None:
        self._rate = UNLIMITED
        self._bucket: TokenBucket | None = None

    def set_rate(self, bytes_per_s: int, now_ms: float) -> None:
        """Change the rate; what was overdrawn stays so."""
        assert bytes_per_s >= 0
        if bytes_per_s == self._rate:
            return
        self._rate = bytes_per_s
        if bytes_per_s in (0, UNLIMITED):
            self._bucket = None
        elif self._bucket is None:
            self._bucket = TokenBucket(bytes_per_s, now_ms)
        else:
            self._bucket.set_rate(bytes_per_s, now_ms)

    def spend(self, size_bytes: int, now_ms: float) -> None:
        """So much has gone over the wire."""
        if self._bucket is not None:
            self._bucket.spend(size_bytes, now_ms)

    def hold_ms(self, now_ms: float) -> float:
        """How long throttled replicas have to wait, 0 if they need not."""
        if self._bucket is not None:
            return self._bucket.throttle_ms(now_ms)
        return CLOSED_MS if self._rate == 0 else 0.0

"""How long the transactions of one partition have been open, by this broker's own clock.

The times in records are the producers' and may be of any year (hazard S-18). A transaction that
nobody ends holds back readers of committed records, and compaction, for ever: whoever operates the
cluster has to see it (hazard T-25, KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class TransactionAges:
    """Owned by a partition, leader or follower; looks from time to time."""

    __slots__ = ("_since_ms",)

    def __init__(self) -> None:
        # By producer id and first offset, which no two transactions share.
        self._since_ms: dict[tuple[int, int], float] = {}

    @property
    def is_empty(self) -> bool:
        return not self._since_ms

    def look(self, open_transactions: Mapping[int, int], now_ms: float) -> None:
        """Take note of what is open now: first offset by producer id."""
        known = self._since_ms
        self._since_ms = {
            transaction: known.get(transaction, now_ms) for transaction in open_transactions.items()
        }

    def oldest_ms(self, now_ms: float) -> float:
        """For how long the oldest one has been known to be open; 0 if none is."""
        return max(0.0, now_ms - min(self._since_ms.values(), default=now_ms))

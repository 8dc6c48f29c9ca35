"""Measures how long the transactions of one partition have been open, by the broker's clock.

Record timestamps are the producers' and may be arbitrary (hazard S-18). A transaction that is never
ended blocks read_committed consumers and compaction for ever, so the operator has to see it (hazard
T-25, KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class TransactionAges:
    """Owned by a partition, leader or follower, and updated periodically."""

    __slots__ = ("_since_ms",)

    def __init__(self) -> None:
        # By producer id and first offset, which no two transactions share.
        self._since_ms: dict[tuple[int, int], float] = {}

    @property
    def is_empty(self) -> bool:
        return not self._since_ms

    def look(self, open_transactions: Mapping[int, int], now_ms: float) -> None:
        """Update with the open transactions: first offset by producer id."""
        known = self._since_ms
        self._since_ms = {
            transaction: known.get(transaction, now_ms) for transaction in open_transactions.items()
        }

    def oldest_ms(self, now_ms: float) -> float:
        """The known age of the oldest open transaction, milliseconds; 0 without one."""
        return max(0.0, now_ms - min(self._since_ms.values(), default=now_ms))

"""Counts of how long things took, in buckets that are fixed once. HOT where it is fed."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# From what one append costs to the longest that a client waits.
BOUNDS_MS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)


class Histogram:
    """Values in milliseconds, by the first bound that is not below them."""

    __slots__ = ("_counts", "sum_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0.0

    def observe(self, value_ms: float) -> None:
        """Count one value."""
        self._counts[bisect_left(BOUNDS_MS, value_ms)] += 1
        self.sum_ms += value_ms

    @property
    def count(self) -> int:
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Each bound with the number of values up to it; the last bound is infinite."""
        return zip((*BOUNDS_MS, float("inf")), accumulate(list(self._counts)), strict=True)

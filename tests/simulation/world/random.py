"""Randomness that follows from the seed alone: not from hash order, time or object addresses.

Every part of the world draws from a separate child, so that one part drawing once more does not
change what the others see.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")


class SimRandom:
    """``ports.Random`` with a few more distributions for the simulated world itself."""

    def __init__(self, seed: int | str, name: str = "world") -> None:
        self._key = hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()
        self._source = random.Random(int(self._key, 16))
        # A float in [0, 1); the source's own, as a call in between costs as much again.
        self.random: Callable[[], float] = self._source.random

    def child(self, name: str) -> SimRandom:
        """A source that depends on this one's key and the name, not on what was drawn so far."""
        return SimRandom(self._key, name)

    def below(self, limit: int) -> int:
        """An integer in [0, limit)."""
        return int(self._source.random() * limit)

    def token(self, count: int) -> bytes:
        """So many random bytes."""
        return self._source.randbytes(count)

    def between(self, low: float, high: float) -> float:
        """A float in [low, high)."""
        return low + (high - low) * self._source.random()

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self._source.random() < probability

    def exponential(self, mean: float) -> float:
        """The waiting time of a Poisson process."""
        return self._source.expovariate(1.0 / mean)

    def choice(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[int(self._source.random() * len(items))]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """So many different items, in random order."""
        return self._source.sample(items, count)

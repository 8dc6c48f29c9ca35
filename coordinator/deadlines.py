"""Keeps many deadlines by key and returns the nearest."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Key = TypeVar("Key", bound="Hashable")


class Deadlines(Generic[Key]):
    """One deadline per key; setting it again moves it. Equal deadlines expire in setting order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        # Key -> the turn of its only valid heap entry: moved and cancelled ones stay in the heap
        # as dead entries until they reach its top or outnumber the living.
        self._turns: dict[Key, int] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._turns)

    def __contains__(self, key: Key) -> bool:
        return key in self._turns

    def set(self, key: Key, deadline_ms: float) -> None:
        """Set the key's deadline; an earlier one is replaced."""
        self._turn += 1
        self._turns[key] = self._turn
        heapq.heappush(self._heap, (deadline_ms, self._turn, key))
        if len(self._heap) > 64 and len(self._heap) > 2 * len(self._turns):
            self._heap = [entry for entry in self._heap if self._turns.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def cancel(self, key: Key) -> None:
        """Remove the key's deadline, if it has one."""
        self._turns.pop(key, None)

    def next_deadline_ms(self) -> float | None:
        """The nearest deadline; None if there is none."""
        while self._heap and self._turns.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_expired(self, now_ms: float) -> Key | None:
        """Remove and return the key of the earliest due deadline; None if none is due.

        For callers that may cancel or move other deadlines while they handle one."""
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._turns[key]
        return key

    def expired(self, now_ms: float) -> list[Key]:
        """Remove and return all keys whose deadline is due, earliest first."""
        keys = []
        while (key := self.take_expired(now_ms)) is not None:
            keys.append(key)
        return keys

"""Chooses the partition of a record. Pure; chance is an argument.

Keys are hashed with murmur2 exactly as the Java client does, so that producers in several languages
put one key into one partition. Records without a key go to one partition until its batch is full,
which makes batches large (KIP-480), and avoid partitions without a leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF


def murmur2(key: bytes) -> int:
    """MurmurHash2 in 32 bits with Kafka's seed, as an unsigned number."""
    length = len(key)
    digest = SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little") * MULTIPLIER & MASK
        word = (word ^ word >> 24) * MULTIPLIER & MASK
        digest = digest * MULTIPLIER & MASK ^ word
    if whole != length:
        digest ^= int.from_bytes(key[whole:], "little")
        digest = digest * MULTIPLIER & MASK
    digest = (digest ^ digest >> 13) * MULTIPLIER & MASK
    return digest ^ digest >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key, among all partitions, with or without a leader.

    Counting only the available ones would move keys at every failure."""
    assert partition_count > 0
    return (murmur2(key) & POSITIVE) % partition_count


class StickyPartitioner:
    """The partition for records without a key, per topic; changes when a batch is complete."""

    __slots__ = ("_below", "_chosen")

    def __init__(self, below: Callable[[int], int]) -> None:
        """``below(limit)`` draws an integer in [0, limit)."""
        self._below = below
        self._chosen: dict[str, int] = {}

    def choose(self, topic: str, partition_count: int, available: Sequence[int]) -> int:
        """The topic's current partition; ``available`` are those that have a leader."""
        assert partition_count > 0
        chosen = self._chosen.get(topic)
        if chosen is None or chosen >= partition_count:
            chosen = self._draw(partition_count, available, None)
            self._chosen[topic] = chosen
        return chosen

    def move_on(self, topic: str, left: int, partition_count: int, available: Sequence[int]) -> int:
        """A batch of partition ``left`` is complete: choose another partition, and return it.

        Does nothing if the topic has moved on already, so two batches that complete together do not
        move it twice."""
        chosen = self._chosen.get(topic)
        if chosen is None or chosen == left or chosen >= partition_count:
            chosen = self._draw(partition_count, available, left)
            self._chosen[topic] = chosen
        return chosen

    def _draw(self, partition_count: int, available: Sequence[int], left: int | None) -> int:
        candidates: Sequence[int] = available if available else range(partition_count)
        if len(candidates) == 1:
            return candidates[0]
        if left is not None:
            candidates = [partition for partition in candidates if partition != left]
        return candidates[self._below(len(candidates))]

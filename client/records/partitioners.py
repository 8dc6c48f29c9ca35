"""Chooses partitions by a named method or by the application's function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args
from zlib import crc32

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PartitionerName = Literal[
    "murmur2", "sticky", "random", "round_robin", "consistent", "consistent_random", "fnv1a"
]
PARTITIONERS: tuple[str, ...] = get_args(PartitionerName)

FNV_OFFSET = 0x811C9DC5
FNV_PRIME = 0x01000193
SIGN = 0x80000000
MASK = 0xFFFFFFFF


class Unplaced(NamedTuple):
    """A serialized record that needs a partition.

    Attributes:
        topic: The topic's name.
        key: The key's bytes, or None.
        value: The value's bytes, or None.
        partition_count: How many partitions the topic has.
        available: The numbers of the partitions that have a leader.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition_count: int
    available: Sequence[int]


if TYPE_CHECKING:
    # None leaves the choice to the producer, which fills one batch after the other.
    Partitioner = Callable[[Unplaced], int | None]


def fnv1a(key: bytes) -> int:
    """The 32-bit FNV-1a variant that Sarama and librdkafka use under that name."""
    digest = FNV_OFFSET
    for byte in key:
        digest = (digest ^ byte) * FNV_PRIME & MASK
    return (-digest & MASK) if digest & SIGN else digest


def partitioner(
    choice: PartitionerName | Partitioner, below: Callable[[int], int]
) -> Partitioner | None:
    """The function for a name; None for murmur2, which is built into the producer.

    ``below(limit)`` draws an integer in [0, limit)."""
    if callable(choice):
        return choice
    if choice == "murmur2":
        return None
    if choice == "round_robin":
        return RoundRobin()

    def at_random(record: Unplaced) -> int:
        candidates = record.available or range(record.partition_count)
        return candidates[below(len(candidates))]

    def consistent(record: Unplaced) -> int:
        return crc32(record.key or b"") % record.partition_count

    def consistent_or_random(record: Unplaced) -> int:
        return consistent(record) if record.key else at_random(record)

    def by_fnv1a(record: Unplaced) -> int | None:
        return None if record.key is None else fnv1a(record.key) % record.partition_count

    named: dict[str, Partitioner] = {
        "sticky": lambda _: None,
        "random": at_random,
        "consistent": consistent,
        "consistent_random": consistent_or_random,
        "fnv1a": by_fnv1a,
    }
    return named[choice]


class RoundRobin:
    """Chooses the partitions of a topic in turn; skips partitions without a leader."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def __call__(self, record: Unplaced) -> int:
        turn = self._turns.get(record.topic, 0)
        self._turns[record.topic] = turn + 1
        candidates = record.available or range(record.partition_count)
        return candidates[turn % len(candidates)]

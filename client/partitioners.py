"""The ways to choose a partition by name, and what a function of the application's own gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PartitionerName = Literal[
    "murmur2", "sticky", "random", "round_robin", "consistent", "consistent_random", "fnv1a"
]
PARTITIONERS: tuple[str, ...] = get_args(PartitionerName)


class Unplaced(NamedTuple):
    """A record that needs a partition, serialized; ``available`` are those that have a leader."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition_count: int
    available: Sequence[int]


if TYPE_CHECKING:
    # None leaves the choice to the producer, which fills one partition's batch after the other.
    Partitioner = Callable[[Unplaced], int | None]

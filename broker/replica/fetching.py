"""How one fetch is spread over its partitions, and whether what was read is enough to answer.

Partitions are served in the order of the request, each up to its own limit, all up to the limit of
the request. The first one that has anything gives a whole batch whatever the limits say, or a
consumer could never pass a batch larger than they are (KIP-74, hazard N-12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")


class Allowance(NamedTuple):
    """What the next partition may read."""

    max_bytes: int
    at_least_one: bool


class FetchBudget:
    """The bytes of one pass over the partitions of one fetch."""

    __slots__ = ("_left_bytes", "readable_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._left_bytes = max(0, max_bytes)
        self.readable_bytes = 0

    def allow(self, partition_max_bytes: int) -> Allowance:
        """What a partition with that limit may read now."""
        limit = min(self._left_bytes, max(0, partition_max_bytes))
        return Allowance(limit, at_least_one=self.readable_bytes == 0)

    def spend(self, size_bytes: int) -> None:
        """A partition has read that much; perhaps more than allowed, if it was the first."""
        assert size_bytes >= 0
        self.readable_bytes += size_bytes
        self._left_bytes = max(0, self._left_bytes - size_bytes)


class FetchProgress(NamedTuple):
    """One pass over all partitions, summed up."""

    partition_count: int
    readable_bytes: int
    # An error, a diverging epoch, another replica to read from: what the client must hear at once.
    has_news: bool


def must_wait(progress: FetchProgress, max_wait_ms: int, min_bytes: int) -> bool:
    """Whether the fetch is to be parked rather than answered with what there is."""
    return (
        max_wait_ms > 0
        and progress.partition_count > 0
        and not progress.has_news
        and progress.readable_bytes < min_bytes
    )


def rotated(items: Sequence[Item], start: int) -> list[Item]:
    """The items beginning with another one, so that no partition is always the one left out."""
    if not items:
        return []
    first = start % len(items)
    return [*items[first:], *items[:first]]

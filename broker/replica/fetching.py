"""Distributes a fetch's bytes over its partitions, and decides whether it must wait.

Partitions are served in the order of the request, each up to its own limit, all up to the limit of
the request. The first one that has records returns a whole batch regardless of the limits, or a
consumer could never pass a larger batch (KIP-74, hazard N-12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.replica.epochs import EpochEnd

Item = TypeVar("Item")


class FetchVerdict(NamedTuple):
    """Whether a fetch may read; if ``diverging`` is set, it is returned instead of records."""

    error: ErrorCode = ErrorCode.NONE
    diverging: EpochEnd | None = None
    watermark_moved: bool = False
    # The follower may join the ISR: propose a change.
    may_join: bool = False

    @property
    def is_good(self) -> bool:
        return self.error == ErrorCode.NONE and self.diverging is None


GOOD = FetchVerdict()


class Allowance(NamedTuple):
    """The read limits of the next partition."""

    max_bytes: int
    at_least_one: bool


class FetchBudget:
    """The bytes of one pass over the partitions of one fetch."""

    __slots__ = ("_left_bytes", "readable_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._left_bytes = max(0, max_bytes)
        self.readable_bytes = 0

    def allow(self, partition_max_bytes: int) -> Allowance:
        """The read limits of a partition with that limit of its own."""
        limit = min(self._left_bytes, max(0, partition_max_bytes))
        return Allowance(limit, at_least_one=self.readable_bytes == 0)

    def spend(self, size_bytes: int) -> None:
        """Account for bytes read; the first partition may exceed its allowance."""
        assert size_bytes >= 0
        self.readable_bytes += size_bytes
        self._left_bytes = max(0, self._left_bytes - size_bytes)


class FetchProgress(NamedTuple):
    """The totals of one pass over all partitions."""

    partition_count: int
    readable_bytes: int
    # An error, a diverging epoch or a preferred replica, which is answered at once.
    has_news: bool


def must_wait(progress: FetchProgress, max_wait_ms: int, min_bytes: int) -> bool:
    """Whether the fetch is parked instead of answered with what was read."""
    return (
        progress.partition_count > 0
        and not progress.has_news
        and waits_for_bytes(progress.readable_bytes, max_wait_ms, min_bytes)
    )


def waits_for_bytes(readable_bytes: int, max_wait_ms: int, min_bytes: int) -> bool:
    """Whether a fetch that has found only those bytes waits for more."""
    return readable_bytes < min_bytes and max_wait_ms > 0


def rotated(items: Sequence[Item], start: int) -> list[Item]:
    """Rotate the items to begin at another one, so that no partition is always last."""
    if not items:
        return []
    first = start % len(items)
    return [*items[first:], *items[:first]]

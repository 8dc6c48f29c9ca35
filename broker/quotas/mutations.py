"""The controller mutations of one request: partitions that are created or deleted (KIP-599)."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.quotas.client_limits import SharedBucket

REFUSAL = "the quota for creating and deleting partitions is used up; try again later"


class Mutations:
    """One per request; without a bucket the request has no quota."""

    def __init__(
        self, bucket: SharedBucket | None, now_ms: Callable[[], float], *, is_strict: bool
    ) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._counted: dict[str, int] = {}
        self._has_refused = False

    def allow(self, topic: str, partition_count: int) -> bool:
        """Whether so many partitions of the topic may be created or deleted now; if so, they are
        counted. A strict request may not while the quota is overdrawn."""
        bucket = self._bucket
        if bucket is None:
            return True
        now_ms = self._now_ms()
        if self._is_strict and bucket.hold_ms(now_ms) > 0:
            self._has_refused = True
            return False
        self._counted[topic] = max(0, partition_count)
        bucket.spend(self._counted[topic], now_ms)
        return True

    def give_back(self, topic: str) -> None:
        """Credit the mutations counted for a topic that was not created or deleted."""
        if self._bucket is not None:
            self._bucket.give_back(self._counted.pop(topic, 0), self._now_ms())

    def throttle_ms(self) -> int:
        """The throttle time of the answer. A strict request is held only if it was refused
        something, another one as soon as the quota is overdrawn."""
        bucket = self._bucket
        if bucket is None or (self._is_strict and not self._has_refused):
            return 0
        hold_ms = ceil(bucket.hold_ms(self._now_ms()))
        bucket.throttled_ms += hold_ms
        return hold_ms

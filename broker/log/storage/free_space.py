"""Judges how full a data directory is, with hysteresis, as reported to the controller.

A write that the disk refused means that there is no room, whatever the free space is (quotas,
reserved blocks); this holds until space is freed, or for a while. Below the floor only client
writes are refused; room is reported again after more than the floor was free for a while.
"""

from __future__ import annotations

from math import inf

ENOUGH = 0
# Less than the floor is free: writes of clients are refused, replication goes on.
LOW = 1
# The disk has refused a write.
NONE = 2
# Bytes that must be freed after a refusal before the next try.
FREED_BYTES = 1 << 20
# The time until the next try if nothing was freed, doubled after each consecutive refusal. Each
# failed try lets idle followers rejoin their ISRs and leave again.
RETRY_MS = 10_000.0
RETRY_MS_MAX = 60_000.0
# Room is reported when there has been enough for this long.
SETTLE_MS = 5_000.0


class RoomGauge:
    """The room of one directory; ``floor_bytes`` is ``ottla.free.space.floor.bytes``."""

    __slots__ = (
        "_floor_bytes",
        "_refused_free_bytes",
        "_retry_ms",
        "_since_ms",
        "_tried_ms",
        "_was_refused",
        "room",
    )

    def __init__(self, floor_bytes: int) -> None:
        self.room = ENOUGH
        self._floor_bytes = floor_bytes
        self._was_refused = False
        self._refused_free_bytes = 0
        self._retry_ms = RETRY_MS
        self._tried_ms = -inf
        # When a write was refused, or since when there is enough again.
        self._since_ms: float | None = None

    def refused(self) -> None:
        """The disk has refused a write for lack of space."""
        self.room = NONE
        self._was_refused = True

    def look(self, free_bytes: int, now_ms: float) -> int:
        """Judge the free space; called about every second."""
        if self._was_refused:
            self._was_refused = False
            self._refused_free_bytes, self._since_ms = free_bytes, now_ms
            if now_ms - self._tried_ms > SETTLE_MS:
                self._retry_ms = RETRY_MS
        elif self.room is NONE:
            assert self._since_ms is not None
            is_freed = free_bytes >= self._refused_free_bytes + FREED_BYTES
            if is_freed:
                self.room, self._since_ms = LOW, None
            elif now_ms - self._since_ms >= self._retry_ms:
                self.room, self._since_ms, self._tried_ms = LOW, None, now_ms
                self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)
        elif free_bytes < self._floor_bytes:
            self.room, self._since_ms = LOW, None
        elif self.room is LOW:
            self._recover(free_bytes, now_ms)
        return self.room

    def _recover(self, free_bytes: int, now_ms: float) -> None:
        if free_bytes < self._floor_bytes + self._floor_bytes // 10:
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = now_ms
        elif now_ms - self._since_ms >= SETTLE_MS:
            self.room, self._since_ms = ENOUGH, None

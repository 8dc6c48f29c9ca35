"""How long a connection has been silent, and how long its unfinished request takes.

Judged by a coarse sweep, so that no event on the hot path asks the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.network.settings import NetworkSettings


class ConnectionAge:
    """Kept by a connection, which sets ``is_active`` whenever bytes have moved either way."""

    __slots__ = ("_idle_ms", "_reading_ms", "_request_count", "is_active")

    def __init__(self) -> None:
        self.is_active = True
        self._idle_ms = 0.0
        self._reading_ms = 0.0
        self._request_count = 0

    def is_idle(self, elapsed_ms: float, *, waits_for_us: bool, settings: NetworkSettings) -> bool:
        """Whether the peer has been silent for too long.

        Time in which it could not be heard, or waits for its answer, is not silence
        (KAFKA-12427)."""
        if self.is_active or waits_for_us:
            self.is_active = False
            self._idle_ms = 0.0
            return False
        self._idle_ms += elapsed_ms
        return 0 < settings.connections_idle_ms_max <= self._idle_ms

    def is_slow(self, elapsed_ms: float, request_count: int, limit_ms: float) -> bool:
        """Whether the request that is arriving takes too long. Only called while one is; the
        time in which we did not read does not count."""
        if request_count != self._request_count:
            self._request_count = request_count
            self._reading_ms = 0.0
        self._reading_ms += elapsed_ms
        return self._reading_ms >= limit_ms

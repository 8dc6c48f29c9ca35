"""Token buckets: how long a client waits after it has exceeded its quota (KIP-13, 219).

A bucket fills at the allowed rate up to a burst. Use may overdraw it, since a request has been
served by the time its cost is known; the debt divided by the rate is the throttle time. Small
overdrafts of many requests add up exactly, which windows of samples do not.
"""

from __future__ import annotations

THROTTLE_MAX_MS = 30_000.0


class TokenBucket:
    """One quota of one entity: bytes or requests per second, or percent of handler time."""

    __slots__ = ("_burst", "_level", "_rate", "_then_ms")

    def __init__(self, rate_per_s: float, now_ms: float, burst_s: float = 1.0) -> None:
        self._then_ms = now_ms
        self._rate = self._burst = self._level = 0.0
        self.set_rate(rate_per_s, now_ms, burst_s)
        self._level = self._burst

    @property
    def rate_per_s(self) -> float:
        return self._rate * 1000

    def set_rate(self, rate_per_s: float, now_ms: float, burst_s: float = 1.0) -> None:
        """Change the quota; a debt is kept and paid off at the new rate."""
        assert rate_per_s > 0
        assert burst_s > 0
        self._refill(now_ms)
        self._rate = rate_per_s / 1000
        self._burst = rate_per_s * burst_s
        self._level = min(self._level, self._burst)

    def spend(self, amount: float, now_ms: float) -> float:
        """Charge a use; return the throttle time in milliseconds, 0 within the quota."""
        assert amount >= 0
        self._refill(now_ms)
        self._level -= amount
        return self.throttle_ms(now_ms)

    def give_back(self, amount: float, now_ms: float) -> None:
        """Credit a use that was charged in advance and did not happen."""
        assert amount >= 0
        self._refill(now_ms)
        self._level = min(self._burst, self._level + amount)

    def throttle_ms(self, now_ms: float) -> float:
        """Return the time until the debt is paid, at most ``THROTTLE_MAX_MS``.

        A longer hold would look like a dead broker to a client and make it reconnect."""
        return min(self.debt_ms(now_ms), THROTTLE_MAX_MS)

    def debt_ms(self, now_ms: float) -> float:
        """Return the time until the debt is paid, without a maximum; 0 without a debt."""
        self._refill(now_ms)
        return 0.0 if self._level >= 0 else -self._level / self._rate

    def is_full(self, now_ms: float) -> bool:
        """Whether it is as good as a new one."""
        self._refill(now_ms)
        return self._level >= self._burst

    def _refill(self, now_ms: float) -> None:
        passed_ms = max(0.0, now_ms - self._then_ms)
        self._then_ms = max(self._then_ms, now_ms)
        self._level = min(self._burst, self._level + passed_ms * self._rate)

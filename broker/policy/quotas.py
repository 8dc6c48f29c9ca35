"""How long a caller must wait for what it has used: token buckets (KIP-13, 219).

A bucket fills at the allowed rate up to a burst. Use may overdraw it, since a request has been
served by the time its cost is known; the debt divided by the rate is the throttle time. Small
overdrafts of many requests add up exactly, which windows of samples do not.
"""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple

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
        """Change the quota; what was overdrawn stays so and is paid off at the new rate."""
        assert rate_per_s > 0
        assert burst_s > 0
        self._refill(now_ms)
        self._rate = rate_per_s / 1000
        self._burst = rate_per_s * burst_s
        self._level = min(self._level, self._burst)

    def spend(self, amount: float, now_ms: float) -> float:
        """Take what was used; the milliseconds the caller is to be held, 0 while within quota."""
        assert amount >= 0
        self._refill(now_ms)
        self._level -= amount
        return self.throttle_ms(now_ms)

    def throttle_ms(self, now_ms: float) -> float:
        """How long until the debt is paid, at most ``THROTTLE_MAX_MS``.

        A longer hold would look like a dead broker to a client and make it reconnect."""
        self._refill(now_ms)
        if self._level >= 0:
            return 0.0
        return min(-self._level / self._rate, THROTTLE_MAX_MS)

    def _refill(self, now_ms: float) -> None:
        passed_ms = max(0.0, now_ms - self._then_ms)
        self._then_ms = max(self._then_ms, now_ms)
        self._level = min(self._burst, self._level + passed_ms * self._rate)


class QuotaEntity(NamedTuple):
    """Whom a quota is for. None is "any that has no quota of its own", "" is "not a part of it"."""

    user: str | None
    client_id: str | None


def matching_entities(user: str, client_id: str) -> list[QuotaEntity]:
    """The entities a caller may fall under, the one that counts first (KIP-55, KIP-257)."""
    return [
        QuotaEntity(user, client_id),
        QuotaEntity(user, None),
        QuotaEntity(user, ""),
        QuotaEntity(None, client_id),
        QuotaEntity(None, None),
        QuotaEntity(None, ""),
        QuotaEntity("", client_id),
        QuotaEntity("", None),
    ]

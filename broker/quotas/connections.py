"""How many connections there may be, and how fast new ones may come (KIP-402, KIP-612).

Limits are those of the whole broker, of each listener and of each address. A listener between
brokers is exempt from those of the whole broker: clients must not keep brokers apart. It has fixed
limits of its own, so that a stranger who reaches it cannot use up the broker's files. Pure.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ottla.broker.quotas.token_bucket import TokenBucket
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLIMITED = 2**31 - 1
# Of a listener between brokers, unless ``listener.name.<name>.max.connections`` is set. Each other
# broker has about ten connections to it, and all brokers of a test may have one address.
BROKERS_MAX = 4_096
BROKERS_PER_IP_MAX = 1_024
# A rate of 0 means a very low rate, not no limit.
_RATE_MIN = 0.001
# Above that number, the broker forgets addresses whose bucket is full.
_ADDRESSES_KEPT = 1_000
# The burst, in seconds of the rate.
_BURST_S = 1.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The configured limits. Settings per listener have the prefix ``listener.name.<name>.``"""

    total_max: int = UNLIMITED  # max.connections
    per_ip_max: int = UNLIMITED  # max.connections.per.ip
    # max.connections.per.ip.overrides
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    rate: int = UNLIMITED  # max.connection.creation.rate, per second
    listener_max: Mapping[str, int] = field(default_factory=dict)
    listener_rate: Mapping[str, int] = field(default_factory=dict)
    # Of one address at a listener between brokers.
    exempt_per_ip_max: int = BROKERS_PER_IP_MAX

    def of_ip(self, host: str) -> int:
        """Return the largest number of open connections of the address."""
        return self.per_ip_overrides.get(host, self.per_ip_max)

    def of_exempt_ip(self, host: str) -> int:
        """The same at a listener between brokers, where an override only raises the limit: many
        clients may come by it through one address, such as that of a proxy."""
        return max(self.exempt_per_ip_max, self.per_ip_overrides.get(host, 0))

    def of_listener(self, name: str) -> int:
        """Return the largest number of open connections of the listener."""
        return self.listener_max.get(name, UNLIMITED)


class ConnectionRates:
    """Rates of new connections; ``now_ms`` is the broker's monotonic clock."""

    def __init__(self) -> None:
        self._total: TokenBucket | None = None
        self._by_listener: dict[str, TokenBucket] = {}
        self._by_ip: dict[str, TokenBucket] = {}

    def set_rates(self, limits: ConnectionLimits, now_ms: float) -> None:
        """Change the rates of the broker and of its listeners."""
        self._total = _bucket(self._total, limits.rate, now_ms)
        buckets = {
            name: _bucket(self._by_listener.get(name), rate, now_ms)
            for name, rate in limits.listener_rate.items()
        }
        self._by_listener = {name: one for name, one in buckets.items() if one is not None}

    def wait_ms(self, listener: str, *, is_exempt: bool, now_ms: float) -> float:
        """Return how long the listener must not accept connections, 0 if it may."""
        return max((one.debt_ms(now_ms) for one in self._of(listener, is_exempt)), default=0.0)

    def count(self, listener: str, *, is_exempt: bool, now_ms: float) -> None:
        """A connection was accepted there."""
        for one in self._of(listener, is_exempt):
            one.spend(1, now_ms)

    def ip_wait_ms(self, host: str, rate: float | None, now_ms: float) -> float:
        """How long the address has to wait before it may connect again.

        Args: ``rate`` per second, None for no limit. 0 means that it may now, and is counted."""
        if rate is None:
            self._by_ip.pop(host, None)
            return 0.0
        found = self._by_ip.get(host)
        if found is None:
            if len(self._by_ip) >= _ADDRESSES_KEPT:
                self._sweep(now_ms)
            found = self._by_ip[host] = TokenBucket(max(rate, _RATE_MIN), now_ms, _BURST_S)
        elif found.rate_per_s != rate:
            found.set_rate(max(rate, _RATE_MIN), now_ms, _BURST_S)
        wait_ms = found.debt_ms(now_ms)
        if not wait_ms:
            found.spend(1, now_ms)
        return wait_ms

    def _of(self, listener: str, is_exempt: bool) -> list[TokenBucket]:
        found = [self._by_listener.get(listener), None if is_exempt else self._total]
        return [one for one in found if one is not None]

    def _sweep(self, now_ms: float) -> None:
        self._by_ip = {host: one for host, one in self._by_ip.items() if not one.is_full(now_ms)}


def plain_host(host: str) -> str:
    """Return an IPv4 address also for a client that reached a dual-stack listener."""
    return host.removeprefix("::ffff:") if "." in host else host


def _bucket(known: TokenBucket | None, rate: int, now_ms: float) -> TokenBucket | None:
    if rate >= UNLIMITED:
        return None
    rate_per_s = max(rate, _RATE_MIN)
    if known is None:
        return TokenBucket(rate_per_s, now_ms, _BURST_S)
    known.set_rate(rate_per_s, now_ms, _BURST_S)
    return known

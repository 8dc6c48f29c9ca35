"""What clients have used of their quotas: one token bucket for all who share a quota. Pure.

Use may overdraw a bucket, since what a request costs is known when it has been served; then its
client is held until the debt is paid (KIP-219).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.quotas.table import (
    CLIENT_KINDS,
    CONSUME,
    MUTATION,
    PRODUCE,
    REQUEST,
    QuotaEntity,
)
from ottla.broker.quotas.token_bucket import TokenBucket
from ottla.coordinator.store.entities import quoted
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.quotas.table import Limit, QuotaTable

# After an operator corrects a quota, a client must not stay throttled for hours.
HOLD_MAX_MS = 600_000.0
# The bucket of request time holds milliseconds of the broker's event loop: 100 % are 1000 a second.
MS_PER_PERCENT = 10.0
# Clients invent client ids. Above these numbers, what was looked up is forgotten, and buckets that
# are full again are dropped: they are as good as new ones.
_KNOWN_MAX = 10_000
_BUCKETS_KEPT = 1_000


class Windows(NamedTuple):
    """Over which times quotas are kept, in seconds, by Kafka's settings.

    ``window_s``: ``quota.window.size.seconds``; half of it may be used at once, so that a client
    which has waited is not ten seconds ahead, and the longest hold for request time.
    ``mutation_s``: ``controller.quota.window.num`` times ``controller.quota.window.size.seconds``,
    all of which may be used at once."""

    window_s: float = 1.0
    mutation_s: float = 11.0

    @property
    def burst_s(self) -> float:
        """Return the burst, in seconds of the rate, of quotas of bytes and of request time."""
        return self.window_s / 2


class SharedBucket:
    """One quota in use, and what its clients have used and waited."""

    __slots__ = ("_bucket", "_hold_max_ms", "kind", "sharers", "throttled_ms", "used")

    def __init__(
        self, kind: str, sharers: QuotaEntity, bucket: TokenBucket, hold_max_ms: float
    ) -> None:
        self.kind = kind
        self.sharers = sharers
        self.used = 0.0
        self.throttled_ms = 0.0
        self._bucket = bucket
        self._hold_max_ms = hold_max_ms

    @property
    def rate_per_s(self) -> float:
        return self._bucket.rate_per_s

    def set_rate(self, rate_per_s: float, now_ms: float, burst_s: float) -> None:
        """Change the quota; a debt stays and is paid off at the new rate."""
        self._bucket.set_rate(rate_per_s, now_ms, burst_s)

    def spend(self, amount: float, now_ms: float) -> None:
        """So much was used."""
        self.used += amount
        self._bucket.spend(amount, now_ms)

    def give_back(self, amount: float, now_ms: float) -> None:
        """Credit a use that was charged in advance and did not happen."""
        self.used -= amount
        self._bucket.give_back(amount, now_ms)

    def hold_ms(self, now_ms: float) -> float:
        """How long to hold the client now, in milliseconds; 0 within the quota."""
        return min(self._bucket.debt_ms(now_ms), self._hold_max_ms)

    def is_full(self, now_ms: float) -> bool:
        """Whether nothing of it is in use."""
        return self._bucket.is_full(now_ms)


class ClientLimits(NamedTuple):
    """The quotas of one client, None where it has none."""

    produce: SharedBucket | None
    consume: SharedBucket | None
    request: SharedBucket | None
    mutation: SharedBucket | None


class ClientBuckets:
    """The buckets of all clients; ``now_ms`` of every call is the broker's monotonic clock."""

    def __init__(self, table: QuotaTable, windows: Windows) -> None:
        self._table = table
        self._windows = windows
        self._buckets: dict[tuple[str, QuotaEntity], SharedBucket] = {}
        self._known: dict[tuple[str, str], ClientLimits | None] = {}
        self._sweep_at = _BUCKETS_KEPT
        # By kind: the use and the throttle time of buckets that were dropped.
        self.forgotten: dict[str, tuple[float, float]] = {}

    def limits_of(self, user: str, client_id: str, now_ms: float) -> ClientLimits | None:
        """The client's quotas, None if it has none.

        Args: plain names, as on the wire."""
        place = user, client_id
        try:
            return self._known[place]
        except KeyError:
            pass
        if len(self._known) >= _KNOWN_MAX or len(self._buckets) >= self._sweep_at:
            self._sweep(now_ms)
        found = self._known[place] = self._find(quoted(user), quoted(client_id), now_ms)
        return found

    def forget(self) -> None:
        """Look quotas up again after a change of the table; debts are kept."""
        self._known.clear()

    def _find(self, user: str, client_id: str, now_ms: float) -> ClientLimits | None:
        found = [
            None if limit is None else self._bucket(kind, limit, now_ms)
            for kind in CLIENT_KINDS
            for limit in (self._table.find(kind, user, client_id),)
        ]
        if found == [None] * len(CLIENT_KINDS):
            return None
        return ClientLimits(*found)

    def in_use(self) -> Iterable[SharedBucket]:
        """Every bucket, in the order in which they were first needed."""
        return self._buckets.values()

    def _bucket(self, kind: str, limit: Limit, now_ms: float) -> SharedBucket:
        rate, burst_s = _in_bucket_units(kind, limit.rate, self._windows)
        place = kind, limit.sharers
        found = self._buckets.get(place)
        if found is None:
            hold_ms = self._windows.window_s * 1000 if kind == REQUEST else HOLD_MAX_MS
            bucket = TokenBucket(rate, now_ms, burst_s)
            found = self._buckets[place] = SharedBucket(kind, limit.sharers, bucket, hold_ms)
        else:
            found.set_rate(rate, now_ms, burst_s)
        return found

    def _sweep(self, now_ms: float) -> None:
        # Clear both: otherwise two clients that share a quota could have two buckets.
        self._known.clear()
        for place in [place for place, one in self._buckets.items() if one.is_full(now_ms)]:
            dropped = self._buckets.pop(place)
            used, held_ms = self.forgotten.get(dropped.kind, (0.0, 0.0))
            self.forgotten[dropped.kind] = used + dropped.used, held_ms + dropped.throttled_ms
        self._sweep_at = max(_BUCKETS_KEPT, 2 * len(self._buckets))


def _in_bucket_units(kind: str, rate: float, windows: Windows) -> tuple[float, float]:
    """Rate per second, and the seconds of it that may be used at once."""
    if kind == REQUEST:
        return rate * MS_PER_PERCENT, windows.burst_s
    if kind == MUTATION:
        return rate, windows.mutation_s
    assert kind in (PRODUCE, CONSUME)
    return rate, windows.burst_s

"""What clients use of their quotas, and how long they are held for it.

Users and client ids are names that clients choose, so only so many of them are labels; what the
others do is one sum. Who has no quota is not in here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import COUNTER, GAUGE, Family
from ottla.coordinator.store.entities import unquoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.metrics.exposition import Sample
    from ottla.broker.quotas.client_limits import SharedBucket
    from ottla.broker.quotas.quotas import Quotas

# Quotas in use that have samples of their own.
LABELLED_MAX = 200
NAME_LENGTH_MAX = 64
OTHERS = "(others)"
_LABELS = ("quota", "user", "client_id")


def quota_families(quotas: Quotas) -> Iterator[Family]:
    """Use and holds of each quota that was used since the broker started."""
    named = list(islice(quotas.in_use(), LABELLED_MAX))
    used: list[Sample] = [(_labels(one), one.used) for one in named]
    held: list[Sample] = [(_labels(one), one.throttled_ms / 1000) for one in named]
    for kind, (used_by_others, held_ms) in _others(quotas).items():
        labels = (kind, OTHERS, OTHERS)
        used.append((labels, used_by_others))
        held.append((labels, held_ms / 1000))
    yield Family(
        COUNTER,
        "ottla_quota_used_total",
        "Bytes, milliseconds of request time, or partitions that count against a quota.",
        _LABELS,
        used,
    )
    yield Family(
        COUNTER,
        "ottla_quota_throttle_seconds_total",
        "Throttle times that were sent to clients.",
        _LABELS,
        held,
    )
    yield Family(
        GAUGE,
        "ottla_quota_rate",
        "What a quota allows per second, in the same units.",
        _LABELS,
        [(_labels(one), one.rate_per_s) for one in named],
    )


def _labels(bucket: SharedBucket) -> tuple[str, str, str]:
    user, client_id = bucket.sharers
    return bucket.kind, _name(user), _name(client_id)


def _name(quoted: str | None) -> str:
    return "" if quoted is None else (unquoted(quoted) or "")[:NAME_LENGTH_MAX]


def _others(quotas: Quotas) -> dict[str, tuple[float, float]]:
    sums = dict(quotas.forgotten())
    for one in islice(quotas.in_use(), LABELLED_MAX, None):
        used, held_ms = sums.get(one.kind, (0.0, 0.0))
        sums[one.kind] = used + one.used, held_ms + one.throttled_ms
    return sums

"""Token buckets: the long-run rate is the quota, whatever the pattern of use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.quotas.token_bucket import THROTTLE_MAX_MS, TokenBucket


def test_use_within_the_burst_is_free() -> None:
    """A client that is below its quota must not notice that there is one."""
    bucket = TokenBucket(1_000, now_ms=0)

    assert [bucket.spend(400, 0), bucket.spend(600, 0), bucket.spend(1, 0)] == [0, 0, 1]


def test_a_debt_is_held_until_it_is_paid() -> None:
    """The request was served already; the wait comes after it (KIP-219)."""
    bucket = TokenBucket(1_000, now_ms=0)

    assert bucket.spend(3_000, 0) == 2_000
    assert bucket.throttle_ms(500) == 1_500
    assert bucket.throttle_ms(2_000) == 0


def test_a_hold_is_limited() -> None:
    """Beyond that a client takes the broker for dead and connects anew."""
    assert TokenBucket(1, now_ms=0).spend(1e9, 0) == THROTTLE_MAX_MS


def test_a_new_rate_applies_to_the_old_debt() -> None:
    """Raising a quota must help at once."""
    bucket = TokenBucket(100, now_ms=0)
    bucket.spend(1_100, 0)
    bucket.set_rate(1_000, 0)

    assert bucket.throttle_ms(0) == 1_000
    assert bucket.rate_per_s == pytest.approx(1_000)


def test_time_that_goes_back_pays_nothing() -> None:
    """The clock is monotonic; a caller that mixes up clocks must not mint tokens."""
    bucket = TokenBucket(1_000, now_ms=10_000)
    bucket.spend(2_000, 10_000)

    assert bucket.throttle_ms(0) == 1_000


@given(st.lists(st.floats(0, 5_000), min_size=1, max_size=50))
def test_a_caller_that_waits_as_told_keeps_to_its_rate(amounts: list[float]) -> None:
    """Over any run the use is at most burst plus rate times time."""
    bucket = TokenBucket(1_000, now_ms=0)
    now_ms = 0.0
    for amount in amounts:
        now_ms += bucket.spend(amount, now_ms)

    assert sum(amounts) <= 1_000 + now_ms + 1e-6

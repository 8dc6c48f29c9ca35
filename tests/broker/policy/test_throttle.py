"""How much of the wire replicas that are being moved may take."""

from __future__ import annotations

import pytest

from ottla.broker.policy.throttle import (
    CLOSED_MS,
    UNLIMITED,
    ReplicationThrottle,
    throttled_replicas,
)


def test_a_setting_names_pairs_or_all_replicas_or_none() -> None:
    """Kafka's tools write partition:broker."""
    pairs, every = throttled_replicas(("0:1", "10:2")), throttled_replicas(("*",))

    assert throttled_replicas(()) is None
    assert pairs is not None
    assert every is not None
    assert [pairs.covers(*one) for one in ((0, 1), (10, 2), (0, 2), (1, 1))] == [
        True,
        True,
        False,
        False,
    ]
    assert every.covers(7, 7)


def test_over_time_no_more_goes_than_the_rate_allows() -> None:
    """Whatever the size of a single answer is."""
    throttle = ReplicationThrottle()
    throttle.set_rate(1_000, 0)
    sent, now_ms = 0, 0.0
    while now_ms < 60_000:
        hold_ms = throttle.hold_ms(now_ms)
        if hold_ms == 0:
            sent += 700
            throttle.spend(700, now_ms)
        now_ms += max(hold_ms, 1)

    assert 59_000 <= sent <= 62_000


@pytest.mark.parametrize(("rate", "hold_ms"), [(UNLIMITED, 0.0), (0, CLOSED_MS)])
def test_no_limit_and_nothing_at_all_are_rates_too(rate: int, hold_ms: float) -> None:
    """The default, and what stops a reassignment for a while."""
    throttle = ReplicationThrottle()
    throttle.set_rate(rate, 0)
    throttle.spend(1 << 40, 0)

    assert throttle.hold_ms(1) == hold_ms


def test_a_lower_rate_counts_at_once_and_a_lifted_one_forgives() -> None:
    """An operator who removes the throttle wants the move to be over."""
    throttle = ReplicationThrottle()
    throttle.set_rate(1_000_000, 0)
    throttle.set_rate(1_000, 10)
    throttle.spend(2_000, 10)
    held = throttle.hold_ms(10)
    throttle.set_rate(UNLIMITED, 20)

    assert held == pytest.approx(1_000, abs=20)
    assert throttle.hold_ms(20) == 0

"""Waiting longer after every failure."""

from __future__ import annotations

import pytest

from ottla.wire.backoff import Backoff
from ottla.wire.pool import Attempts

MIDDLE = 0.5


def test_the_pause_doubles_up_to_the_limit() -> None:
    """KIP-580: a broker that is down for long must not be asked every few milliseconds."""
    backoff = Backoff(100, 1000)

    delays_ms = [backoff.delay_ms(failures, MIDDLE) for failures in range(7)]

    assert delays_ms == [0, 100, 200, 400, 800, 1000, 1000]


def test_chance_spreads_the_pause_by_a_fifth_to_either_side() -> None:
    """Clients that lost the same broker together must not come back together."""
    backoff = Backoff(100, 1000)

    assert backoff.delay_ms(1, 0.0) == pytest.approx(80)
    assert backoff.delay_ms(1, 0.999999) == pytest.approx(120, abs=0.01)


def test_any_number_of_failures_has_a_pause() -> None:
    """The power must not overflow after a night without a broker."""
    assert Backoff(50, 1000).delay_ms(100_000, MIDDLE) == 1000


def test_a_range_that_shrinks_is_refused() -> None:
    """A limit below the start is a slip of the configuration, not a wish."""
    with pytest.raises(ValueError, match="from 100 ms to 50 ms"):
        Backoff(100, 50)


def test_a_success_forgets_the_failures() -> None:
    """One bad minute must not slow down the reconnects of the next day."""
    attempts = Attempts(Backoff(100, 1000))
    attempts.failed(1_000, MIDDLE)
    attempts.failed(2_000, MIDDLE)
    assert attempts.wait_ms(2_050) == 150

    attempts.succeeded()

    assert attempts.wait_ms(2_050) == 0
    attempts.failed(3_000, MIDDLE)
    assert attempts.wait_ms(3_000) == 100

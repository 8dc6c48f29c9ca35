"""What counts as silence, and as a request that takes too long."""

from __future__ import annotations

import pytest

from ottla.broker.network.connection_age import ConnectionAge
from ottla.broker.network.settings import NetworkSettings

SETTINGS = NetworkSettings(connections_idle_ms_max=100)


def test_silence_counts_from_the_last_activity() -> None:
    """A connection that was just used must get its full time."""
    age = ConnectionAge()
    assert not age.is_idle(90, waits_for_us=False, settings=SETTINGS)
    assert not age.is_idle(90, waits_for_us=False, settings=SETTINGS)
    age.is_active = True
    assert not age.is_idle(90, waits_for_us=False, settings=SETTINGS)

    assert not age.is_idle(90, waits_for_us=False, settings=SETTINGS)
    assert age.is_idle(10, waits_for_us=False, settings=SETTINGS)


def test_time_spent_waiting_for_the_broker_is_not_silence() -> None:
    """A long poll or a mute is not the client's doing (KAFKA-12427)."""
    age = ConnectionAge()
    age.is_active = False
    for _ in range(10):
        assert not age.is_idle(90, waits_for_us=True, settings=SETTINGS)

    assert not age.is_idle(90, waits_for_us=False, settings=SETTINGS)


@pytest.mark.parametrize("limit_ms", [0, -1])
def test_idle_limit_of_zero_or_less_is_none(limit_ms: float) -> None:
    """connections.max.idle.ms = -1 is how Kafka's operators switch it off."""
    age = ConnectionAge()
    settings = NetworkSettings(connections_idle_ms_max=limit_ms)
    for _ in range(10):
        assert not age.is_idle(1e9, waits_for_us=False, settings=settings)


def test_each_request_has_its_own_time_to_arrive() -> None:
    """A busy connection is always in the middle of some request."""
    age = ConnectionAge()
    assert not age.is_slow(90, 1, limit_ms=100)
    assert not age.is_slow(90, 2, limit_ms=100)

    assert age.is_slow(90, 2, limit_ms=100)

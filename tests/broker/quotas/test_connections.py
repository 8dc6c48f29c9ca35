"""Rates of new connections, by broker, listener and address."""

from __future__ import annotations

import pytest

from ottla.broker.quotas.connections import ConnectionLimits, ConnectionRates, plain_host


def test_a_listener_waits_for_the_brokers_rate_and_for_its_own() -> None:
    """The longer wait counts; the exempt listener has its own only."""
    rates = ConnectionRates()
    rates.set_rates(ConnectionLimits(rate=2, listener_rate={"A": 1}), 0)
    for _ in range(4):
        rates.count("A", is_exempt=False, now_ms=0)

    assert rates.wait_ms("A", is_exempt=False, now_ms=0) == 3_000
    assert rates.wait_ms("B", is_exempt=False, now_ms=0) == 1_000
    assert rates.wait_ms("B", is_exempt=True, now_ms=0) == 0
    assert rates.wait_ms("A", is_exempt=False, now_ms=3_000) == 0


def test_a_limit_that_is_taken_back_holds_no_more() -> None:
    """Changed while the broker runs, as in Kafka."""
    rates = ConnectionRates()
    rates.set_rates(ConnectionLimits(rate=1), 0)
    for _ in range(9):
        rates.count("A", is_exempt=False, now_ms=0)
    rates.set_rates(ConnectionLimits(), 0)

    assert rates.wait_ms("A", is_exempt=False, now_ms=0) == 0


def test_an_address_that_is_refused_pays_nothing() -> None:
    """Otherwise one that keeps trying would never get in."""
    rates = ConnectionRates()
    waits = [rates.ip_wait_ms("10.0.0.1", 1, 0) for _ in range(5)]

    assert waits == [0, 0, 1_000, 1_000, 1_000]
    assert rates.ip_wait_ms("10.0.0.2", 1, 0) == 0
    assert rates.ip_wait_ms("10.0.0.1", 1, 1_000) == 0
    assert rates.ip_wait_ms("10.0.0.1", None, 1_000) == 0


def test_many_addresses_do_not_fill_the_memory() -> None:
    """IPv6 has more addresses than a broker has memory."""
    rates = ConnectionRates()
    for number in range(20_000):
        rates.ip_wait_ms(f"10::{number:x}", 1, number * 10)

    assert len(rates._by_ip) < 2_000


@pytest.mark.parametrize(
    ("host", "plain"),
    [("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("h", "h")],
)
def test_an_ipv4_address_has_one_name(host: str, plain: str) -> None:
    """A listener for both families sees it as IPv6."""
    assert plain_host(host) == plain

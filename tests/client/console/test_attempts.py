"""Logins that fail are slowed down; others are not."""

from __future__ import annotations

import pytest

from ottla.client.console.attempts import (
    ADDRESS,
    ENTRIES_MAX,
    FORGOTTEN_AFTER_MS,
    PAIR,
    USER,
    LoginAttempts,
    network_of,
)


def _fail(attempts: LoginAttempts, count: int, now_ms: float = 0.0) -> float:
    for _ in range(count):
        wait_ms = attempts.begin("ada", "192.0.2.1", now_ms)
    return wait_ms


def test_some_mistakes_are_free_and_delays_double() -> None:
    """A guesser of passwords gets a few hundred in a day, instead of a million."""
    attempts = LoginAttempts()
    assert _fail(attempts, PAIR.free) == 0

    now_ms, delays = 0.0, []
    for _ in range(12):
        wait_ms = _fail(attempts, 1, now_ms)
        delays.append(wait_ms)
        now_ms += wait_ms
        assert _fail(attempts, 1, now_ms) == 0

    assert delays[:4] == [1_000, 2_000, 4_000, 8_000]
    assert delays[-1] == PAIR.delay_ms_max


def test_another_address_is_not_kept_out_at_once() -> None:
    """A stranger must not be able to lock a user out with five mistakes."""
    attempts = LoginAttempts()
    _fail(attempts, PAIR.free)

    assert attempts.begin("ada", "192.0.2.1", 1.0) > 0
    assert attempts.begin("ada", "192.0.2.2", 1.0) == 0
    assert attempts.begin("bob", "192.0.2.1", 1.0) == 0


def test_many_names_from_one_address_and_many_addresses_for_one_name_are_slowed_down() -> None:
    """The two other ways to guess."""
    attempts = LoginAttempts()
    for number in range(ADDRESS.free):
        assert attempts.begin(f"user-{number}", "192.0.2.9", 0.0) == 0
    assert attempts.begin("another", "192.0.2.9", 0.0) == 1_000

    for number in range(USER.free):
        assert attempts.begin("ada", f"198.51.100.{number}", 0.0) == 0
    assert attempts.begin("ada", "203.0.113.1", 0.0) == 1_000


def test_a_right_password_ends_the_count() -> None:
    """Of this user at this address; the address has the mistakes of others."""
    attempts = LoginAttempts()
    for _ in range(100):
        assert attempts.begin("ada", "192.0.2.1", 0.0) == 0
        attempts.succeeded("ada", "192.0.2.1")

    assert _fail(attempts, PAIR.free) == 0


def test_old_mistakes_are_forgotten() -> None:
    """After an hour without a further one."""
    attempts = LoginAttempts()
    _fail(attempts, PAIR.free)

    assert _fail(attempts, PAIR.free, FORGOTTEN_AFTER_MS + 2_000) == 0


def test_the_memory_is_bounded() -> None:
    """Names are written by strangers; the address of the flood stays counted."""
    attempts = LoginAttempts()
    now_ms = 0.0
    for number in range(ENTRIES_MAX):
        now_ms += 400_000
        assert attempts.begin(f"{number}" * 1_000, "192.0.2.1", now_ms) == 0

    assert len(attempts._entries) <= ENTRIES_MAX
    assert attempts.begin("another", "192.0.2.1", now_ms) > 0


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_network_of_ipv6_counts_as_one(host: str, network: str) -> None:
    """Its holder has more addresses than there are passwords."""
    assert network_of(host) == network

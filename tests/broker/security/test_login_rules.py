"""The rules of logins as tables and counts: what is served when, delays, and limits."""

from __future__ import annotations

import pytest

from ottla.broker.security.failure_delays import (
    DELAY_MS_MAX,
    FORGOTTEN_AFTER_MS,
    HOSTS_MAX,
    FailureDelays,
)
from ottla.broker.security.login_states import LoginState, LoginStep, step_of
from ottla.broker.security.pending_logins import PendingLogins
from ottla.protocol.apis import API, ApiKey

SERVED = {
    LoginState.START: {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE},
    LoginState.EXPIRED: {ApiKey.SASL_HANDSHAKE},
    LoginState.TOKENS: {ApiKey.SASL_AUTHENTICATE},
    LoginState.RAW_TOKENS: set(),
    LoginState.FAILED: set(),
}


@pytest.mark.parametrize("state", LoginState)
def test_every_api_is_closed_in_every_state_but_for_three(state: LoginState) -> None:
    """An API that a later change adds must not be served before the login by itself."""
    served = {
        key
        for key in [*API, -1, 9999]
        if step_of(state, key) not in (LoginStep.CLOSE, LoginStep.REFUSE)
    }
    refused = {key for key in API if step_of(state, key) is LoginStep.REFUSE}

    assert served == SERVED[state]
    assert refused <= {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def test_the_delay_doubles_up_to_its_limit_and_falls_back() -> None:
    """A stranger that tries passwords gets slower; a user that mistyped does not stay slow."""
    delays = FailureDelays(100)

    seen = [delays.failed("10.0.0.1", 0, 0) for _ in range(20)]
    assert seen[:4] == [100, 200, 400, 800]
    assert seen[-1] == DELAY_MS_MAX
    assert delays.failed("10.0.0.2", 0, 1) == 125
    assert delays.failed("10.0.0.1", FORGOTTEN_AFTER_MS, 0) == 100
    delays.succeeded("10.0.0.2")
    assert delays.failed("10.0.0.2", 0, 0) == 100
    assert FailureDelays(0).failed("10.0.0.1", 0, 0.5) == 0


def test_the_memory_for_failures_is_bounded() -> None:
    """Addresses are cheap, above all those of IPv6."""
    delays = FailureDelays(100)
    for number in range(HOSTS_MAX + 1):
        delays.failed(f"host {number}", 0, 0)

    assert delays.failed("host 0", 0, 0) == 100
    assert delays.failed(f"host {HOSTS_MAX}", 0, 0) == 200


class Peer:
    """A connection, as far as it is counted."""

    def __init__(self, client_host: str) -> None:
        self.client_host = client_host


def test_beyond_a_limit_the_oldest_connection_goes() -> None:
    """Connections that never log in must not keep out those that do."""
    pending = PendingLogins(3, 2)
    first, second, third, fourth = Peer("a"), Peer("b"), Peer("b"), Peer("b")

    assert [pending.add(one) for one in (first, second, third)] == [None, None, None]
    assert pending.add(fourth) is second
    pending.remove(second)
    assert pending.add(Peer("c")) is first
    pending.remove(first)
    pending.remove(first)
    assert len(pending) == 3
    pending.remove(third)
    assert pending.add(Peer("b")) is None

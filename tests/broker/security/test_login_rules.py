"""The rules of logins as tables and counts: what is served when, delays, and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from ottla.broker.engine.tasks import Tasks
from ottla.broker.security.failure_delays import (
    DELAY_MS_MAX,
    FORGOTTEN_AFTER_MS,
    HOSTS_MAX,
    FailureDelays,
)
from ottla.broker.security.login_states import LoginState, LoginStep, step_of
from ottla.broker.security.logins import Logins
from ottla.broker.security.pending_logins import PendingLogins
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.apis import API, ApiKey
from ottla.protocol.ports import Ports
from tests.broker.support.node import HandClock
from tests.support.sasl_broker import sasl_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.security.credentials import Credentials

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


class Arriving:
    """A connection that was accepted at that time and sends nothing."""

    waits_for_us = False

    def __init__(self, accepted_ms: float, client_host: str = "10.0.0.1") -> None:
        self.accepted_ms = accepted_ms
        self.client_host = client_host
        self.closed_because = ""

    def on_close(self, callback: Callable[[], object]) -> None:
        """Nothing of a closed connection is needed here."""

    def close(self, reason: str) -> None:
        self.closed_because = reason


class Unheard:
    """A listener that needs no reports."""

    def told(self, connection: object, reason: str) -> None: ...


def _logins(clock: HandClock, **settings: str) -> Logins:
    config = parse_broker_config(sasl_settings(**settings)).config
    unused = cast("Any", None)
    ports = Ports(clock, unused, unused, unused, unused, unused)
    return Logins(config, cast("Credentials", unused), ports, Tasks())


async def test_a_handshake_and_a_login_share_one_time_limit() -> None:
    """A peer that uses up the time of a handshake gets no second time for the login."""
    clock = HandClock()
    await clock.advance(9_000)
    logins = _logins(clock)
    shaken, plain = Arriving(accepted_ms=0), Arriving(accepted_ms=9_000)
    for one in (shaken, plain):
        logins.begin(cast("Any", one), cast("Any", Unheard()), is_exempt=False)

    seen = []
    for passed_ms in (999, 1, 8_999, 1):
        await clock.advance(passed_ms)
        seen.append((bool(shaken.closed_because), bool(plain.closed_because)))
    assert seen == [(False, False), (True, False), (True, False), (True, True)]


async def test_unfinished_logins_at_the_listener_of_brokers_are_bounded_too() -> None:
    """They are counted apart: clients that do not log in must not push out brokers."""
    logins = _logins(
        HandClock(),
        ottla_authentication_max_connections="2",
        ottla_authentication_max_connections_per_ip="2",
    )
    brokers, clients = ([Arriving(0) for _ in range(3)] for _ in range(2))
    for one in brokers:
        logins.begin(cast("Any", one), cast("Any", Unheard()), is_exempt=True)
    for one in clients:
        logins.begin(cast("Any", one), cast("Any", Unheard()), is_exempt=False)

    for group in (brokers, clients):
        assert [bool(one.closed_because) for one in group] == [True, False, False]
    assert logins.pending_count == 4

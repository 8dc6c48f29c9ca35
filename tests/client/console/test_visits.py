"""How many visits there are, and when they end."""

from __future__ import annotations

from ottla.client.cluster.metadata import TopicView
from ottla.client.console.connections import ClusterAccess, ConsoleConnection
from ottla.client.console.visits import IDLE_MS_MAX, VISIT_MS_MAX, VISITS_MAX, Visits, needs_login
from ottla.client.process.environment import Environment
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom


class _StandingClock(RealClock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> float:
        """The test's time."""
        return self.ms


def _visits(clock: RealClock) -> Visits:
    world = Environment(RealNet(), clock, RealRandom())
    return Visits(ClusterAccess("127.0.0.1:1", {}, world), must_log_in=True)


async def test_a_visit_ends_when_it_was_idle_for_long() -> None:
    """A cookie that was copied from a machine is not of use for ever."""
    clock = _StandingClock()
    visits = _visits(clock)
    visit = visits.begin()
    clock.ms = IDLE_MS_MAX
    assert visits.find(visit.name) is visit

    clock.ms += IDLE_MS_MAX + 1

    assert visits.find(visit.name) is None
    clock.ms = 0
    assert visits.find(visit.name) is None


async def test_a_visit_has_an_end_even_if_it_is_used() -> None:
    """A page that is left open on a wall renews itself for ever; its password must not stay."""
    clock = _StandingClock()
    visits = _visits(clock)
    visit = visits.begin()
    while clock.ms < VISIT_MS_MAX:
        assert visits.find(visit.name) is visit
        clock.ms += IDLE_MS_MAX / 2
    clock.ms += 1

    assert visits.find(visit.name) is None


async def test_a_visit_that_is_over_is_ended_without_a_request() -> None:
    """Its connection and its password go, whether or not the visitor comes again."""
    clock = _StandingClock()
    visits = _visits(clock)
    visit = visits.begin()
    visit.connection = ConsoleConnection(ClusterAccess("127.0.0.1:1", {}, visits.environment))
    visits.sweep()
    assert not visit.connection.is_closed

    clock.ms = IDLE_MS_MAX + 1
    visits.sweep()

    assert visit.connection.is_closed


async def test_old_lists_of_topics_are_freed() -> None:
    """Two hundred visitors of a cluster of ten thousand topics would hold gigabytes."""
    clock = _StandingClock()
    visits = _visits(clock)
    visit = visits.begin()
    connection = ConsoleConnection(ClusterAccess("127.0.0.1:1", {}, visits.environment))
    visit.connection = connection
    connection._topics, connection._topics_ms = [TopicView("t")], 0.0
    visits.sweep()
    assert connection._topics

    clock.ms = 60_000
    visits.sweep()

    assert connection._topics == []


async def test_there_are_at_most_so_many_visits() -> None:
    """Each request without a cookie may begin one: memory has to stay bounded."""
    visits = _visits(RealClock())
    first, second = visits.begin(), visits.begin()
    visits.find(first.name)
    for _ in range(VISITS_MAX - 1):
        visits.begin()

    assert visits.find(second.name) is None
    assert visits.find(first.name) is first


def test_settings_say_whether_visitors_log_in() -> None:
    """The password of a file is enough, and so is a token."""
    assert not needs_login({})
    assert not needs_login({"security.protocol": "SSL"})
    assert needs_login({"security.protocol": "SASL_SSL"})
    assert not needs_login({"security.protocol": "SASL_SSL", "sasl.jaas.config": "..."})
    assert not needs_login({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"})

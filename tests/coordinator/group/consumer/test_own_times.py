"""A group with session timeout and heartbeat interval of its own (KIP-848)."""

from __future__ import annotations

from ottla.coordinator.configs.group_configs import GroupTimes
from tests.coordinator.group.consumer.site import Site, beat, join


def _site(times: dict[str, GroupTimes]) -> Site:
    site = Site()
    site.scope.own_times = times.get
    return site


def test_what_is_set_for_a_group_counts_for_it_alone() -> None:
    """An administrator gives one slow application more time, not all of them."""
    site = _site({"other": GroupTimes(50_000, 9_000)})

    assert site.ask(join("a")).heartbeat_interval_ms == 5_000

    site.scope.own_times = {"g": GroupTimes(50_000, 9_000)}.get
    assert site.ask(beat("a", 1)).heartbeat_interval_ms == 9_000
    site.pass_time(49_999)
    assert site.group.has_members
    site.pass_time(1)
    assert not site.group.has_members


def test_a_shorter_session_counts_from_the_next_heartbeat_on() -> None:
    """The timer that was set for the longer one would find a dead member late."""
    times = {"g": GroupTimes(60_000, 5_000)}
    site = _site(times)
    site.ask(join("a"))

    times["g"] = GroupTimes(10_000, 5_000)
    site.ask(beat("a", 1))
    site.pass_time(10_000)

    assert not site.group.has_members


def test_a_longer_session_counts_from_the_next_heartbeat_on() -> None:
    """The timer that was set for the shorter one looks again."""
    times = {"g": GroupTimes(10_000, 5_000)}
    site = _site(times)
    site.ask(join("a"))

    times["g"] = GroupTimes(60_000, 5_000)
    site.ask(beat("a", 1))
    site.pass_time(59_000)

    assert site.group.has_members

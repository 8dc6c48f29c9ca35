"""The group as a whole: how it is described, and what its heartbeats cost."""

from __future__ import annotations

import sys

from tests.coordinator.group.consumer.site import CALLER, Site, beat, join


def test_description_shows_both_assignments() -> None:
    """Operators see from the difference who has yet to move."""
    site = Site({"t": 4})
    site.ask(join("a"))
    site.ask(join("b"))
    site.ask(beat("a", 1, {"t": [0, 1, 2, 3]}))
    described = site.described()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == (
        "Reconciling",
        2,
        2,
    )
    first = described.members[0]
    assert (first.member_id, first.member_epoch, first.client_id) == ("a", 1, "client")
    assert first.member_type == 1
    assert first.subscribed_topic_names == ["t"]
    assert [topic.partitions for topic in first.assignment.topic_partitions] == [[0, 1]]
    assert [topic.topic_name for topic in first.target_assignment.topic_partitions] == ["t"]


def settled(size: int) -> tuple[Site, int]:
    """A stable group of that many members, and the epoch they are in."""
    site = Site({"t": size})
    names = [f"m{index}" for index in range(size)]
    for name in names:
        site.ask(join(name))
    while site.group.state_name != "Stable":
        for name in names:
            site.ask(join(name))
    return site, site.group.state.group_epoch


def calls_of_a_heartbeat(size: int) -> int:
    """How many functions are called for it: a measure that no load of the machine moves."""
    site, epoch = settled(size)
    request, count = beat("m1", epoch), 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        site.group.heartbeat(request, CALLER, 10_000)
    finally:
        sys.setprofile(None)
    return count


def test_steady_heartbeat_costs_the_same_in_a_group_of_any_size() -> None:
    """A hundred members beat twenty times a second; nothing may be computed for it.

    Measured on one quiet core of 2024: 6 microseconds."""
    assert calls_of_a_heartbeat(100) == calls_of_a_heartbeat(2) < 25


def test_steady_heartbeat_writes_nothing_and_sets_no_timer() -> None:
    """Neither the log nor the heap may grow with time alone."""
    site, epoch = settled(3)
    length, deadlines = len(site.log), len(site.scope.deadlines)

    site.ask(beat("m1", epoch))

    assert (len(site.log), len(site.scope.deadlines)) == (length, deadlines)

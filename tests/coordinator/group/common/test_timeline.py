"""The timeline: little memory, readable sentences."""

from __future__ import annotations

from ottla.coordinator.effects import Moment
from ottla.coordinator.group.common.timeline import DETAIL_CHARACTERS_MAX, GroupEventKind, Timeline


def _note(timeline: Timeline, group_id: str, wall_ms: int) -> None:
    timeline.note(Moment(0.0, wall_ms), group_id, GroupEventKind.JOINED, "m", 1)


def test_the_last_events_of_a_group_are_kept() -> None:
    """A group that loops in rebalances must not fill the memory."""
    timeline = Timeline(events_of_group_max=3, events_max=100)

    for wall_ms in range(10):
        _note(timeline, "g", wall_ms)

    assert [event.wall_ms for event in timeline.of_group("g")] == [7, 8, 9]
    assert len(timeline) == 3


def test_groups_without_recent_events_lose_their_events_first() -> None:
    """Many short-lived groups must not fill the memory; users ask about recent events most."""
    timeline = Timeline(events_of_group_max=3, events_max=4)

    _note(timeline, "old", 0)
    _note(timeline, "busy", 1)
    _note(timeline, "old", 2)
    for wall_ms in range(3, 6):
        _note(timeline, "new", wall_ms)

    assert len(timeline) == 4
    assert timeline.of_group("busy") == []
    assert [event.wall_ms for event in timeline.of_group("old")] == [2]


def test_what_clients_say_is_cut() -> None:
    """KIP-800 lets them give a reason of any length (hazard G-10)."""
    timeline = Timeline()

    timeline.note(Moment(0.0, 0), "g", GroupEventKind.LEFT, "m", detail="x" * 40_000)

    assert len(timeline.of_group("g")[0].detail) == DETAIL_CHARACTERS_MAX


def test_events_read_as_sentences() -> None:
    """Operators read them to find the reason of a rebalance."""
    timeline = Timeline()
    moment = Moment(0.0, 0)

    timeline.note(moment, "g", GroupEventKind.REBALANCE_STARTED)
    timeline.note(moment, "g", GroupEventKind.LEFT, "m", 3, "it asked to")
    timeline.note(moment, "g", GroupEventKind.TURNED_AWAY)

    assert [event.sentence for event in timeline.of_group("g")] == [
        "a rebalance started",
        "m left (generation 3): it asked to",
        "a client was turned away",
    ]

"""When sessions of other processes are over."""

from __future__ import annotations

from ottla.coordinator.store.served.silence import Silence

INTERVAL_MS = 100.0


def looked_at(silence: Silence, times_ms: list[float]) -> list[list[int]]:
    """What each look finds."""
    return [silence.expired(now_ms, INTERVAL_MS) for now_ms in times_ms]


def test_a_session_is_over_after_its_timeout() -> None:
    """Not before: its owner counts on it."""
    silence = Silence(0.0)
    silence.begin(1, 300, 0.0)

    assert looked_at(silence, [100.0, 200.0, 299.0, 300.0]) == [[], [], [], [1]]


def test_each_message_keeps_the_session() -> None:
    """The timeout counts from the last one."""
    silence = Silence(0.0)
    silence.begin(1, 300, 0.0)
    silence.begin(2, 300, 0.0)
    silence.hear(1, 150.0)

    assert looked_at(silence, [100.0, 200.0, 300.0, 400.0]) == [[], [], [2], [2]]
    silence.end(2)
    assert looked_at(silence, [449.0, 450.0]) == [[], [1]]


def test_time_in_which_the_store_stood_still_is_no_silence() -> None:
    """P-02: messages that have arrived meanwhile are still unread."""
    silence = Silence(0.0)
    silence.begin(1, 300, 0.0)

    assert looked_at(silence, [100.0, 10_000.0, 10_100.0]) == [[], [], []]
    assert looked_at(silence, [10_299.0, 10_300.0]) == [[], [1]]


def test_a_look_may_be_a_little_late() -> None:
    """A busy loop must not keep dead sessions for ever."""
    silence = Silence(0.0)
    silence.begin(1, 300, 0.0)

    assert looked_at(silence, [150.0, 300.0]) == [[], [1]]


def test_looks_follow_the_shortest_timeout() -> None:
    """And there is an interval without sessions."""
    silence = Silence(0.0)
    assert silence.interval_ms() == 100.0
    silence.begin(1, 18_000, 0.0)
    silence.begin(2, 6_000, 0.0)

    assert silence.interval_ms() == 600.0


def test_a_session_that_is_over_is_not_heard() -> None:
    """Its last message may arrive after its end."""
    silence = Silence(0.0)
    silence.begin(1, 300, 0.0)
    silence.end(1)
    silence.hear(1, 100.0)

    assert looked_at(silence, [500.0]) == [[]]

"""The timing wheel: never early, at most a tick late, silent when empty."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.engine.timing_wheel import TimingWheel, WheelTimer
from tests.broker.support.scratch import HandClock


def test_a_callback_runs_at_the_first_tick_after_its_deadline() -> None:
    """Early would answer a fetch before its wait was over; late by more than a tick is drift."""
    clock = HandClock()
    wheel = TimingWheel(clock, tick_ms=10)
    ran_at: list[float] = []
    wheel.call_at(25, lambda: ran_at.append(clock.now_ms()))

    clock.advance_to(24)
    assert ran_at == []
    clock.advance_to(100)
    assert ran_at == [30]


def test_an_empty_wheel_leaves_the_clock_alone() -> None:
    """A broker at rest must not wake up a hundred times a second."""
    clock = HandClock()
    wheel = TimingWheel(clock)
    timer = wheel.call_at(500, lambda: None)
    armed_before = wheel.is_armed
    timer.cancel()

    assert armed_before

    assert [wheel.is_armed, clock.armed_count, wheel.count] == [False, 0, 0]


def test_one_clock_timer_serves_all_deadlines() -> None:
    """Ten thousand parked fetches must not be ten thousand timers of the loop."""
    clock = HandClock()
    wheel = TimingWheel(clock)
    for index in range(1_000):
        wheel.call_at(500 + index % 7, lambda: None)

    assert clock.armed_count == 1


def test_an_earlier_deadline_moves_the_alarm_forward() -> None:
    """A short wait behind a long one must not wait for the long one's tick."""
    clock = HandClock()
    wheel = TimingWheel(clock)
    ran: list[str] = []
    wheel.call_at(30_000, lambda: ran.append("late"))
    wheel.call_at(100, lambda: ran.append("soon"))

    clock.advance_to(110)
    assert ran == ["soon"]
    clock.advance_to(30_000)
    assert ran == ["soon", "late"]


def test_a_deadline_in_the_past_runs_soon_but_not_at_once() -> None:
    """Running it inside ``call_at`` would answer a request before it is parked."""
    clock = HandClock()
    clock.advance_to(1_000)
    wheel = TimingWheel(clock)
    ran: list[int] = []
    wheel.call_at(10, lambda: ran.append(1))

    assert ran == []
    clock.advance_to(1_000)
    assert ran == [1]


def test_a_callback_may_cancel_another_of_its_tick() -> None:
    """Two waiters of one connection expire together; the first closes the connection."""
    clock = HandClock()
    wheel = TimingWheel(clock)
    ran: list[str] = []
    timers: list[WheelTimer] = []

    def first() -> None:
        ran.append("first")
        timers[0].cancel()

    wheel.call_at(10, first)
    timers.append(wheel.call_at(10, lambda: ran.append("second")))

    clock.advance_to(50)

    assert ran == ["first"]
    assert not wheel.is_armed


def test_a_failing_callback_does_not_take_the_others_with_it() -> None:
    """One broken handler must not leave every other client without an answer."""
    clock = HandClock()
    wheel = TimingWheel(clock)
    ran: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    wheel.call_at(10, fail)
    wheel.call_at(10, lambda: ran.append("same tick"))
    wheel.call_at(40, lambda: ran.append("later"))

    with pytest.raises(ZeroDivisionError):
        clock.advance_to(100)
    clock.advance_to(100)
    assert ran == ["same tick", "later"]


def test_close_drops_everything() -> None:
    """A timer that outlives the server calls into parts that are gone."""
    clock = HandClock()
    wheel = TimingWheel(clock)
    ran: list[int] = []
    for deadline_ms in (10, 20, 20, 5_000):
        wheel.call_at(deadline_ms, lambda: ran.append(1))

    wheel.close()
    clock.advance_to(10_000)

    assert (ran, wheel.count, clock.armed_count) == ([], 0, 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 500), st.booleans()), min_size=1, max_size=40
    )
)
def test_every_callback_runs_once_within_a_tick_of_its_deadline(
    plan: list[tuple[int, int, bool]],
) -> None:
    """No order of adding and cancelling may make a callback early, lost or repeated."""
    clock = HandClock()
    wheel = TimingWheel(clock, tick_ms=10)
    ran: dict[int, list[float]] = {}
    cancelled = set()
    for index, (start_ms, wait_ms, cancel) in sorted(enumerate(plan), key=lambda one: one[1]):
        clock.advance_to(start_ms)

        def note(index: int = index) -> None:
            ran.setdefault(index, []).append(clock.now_ms())

        timer = wheel.call_at(start_ms + wait_ms, note)
        if cancel:
            timer.cancel()
            cancelled.add(index)
    clock.advance_to(2_000)

    assert set(ran) == set(range(len(plan))) - cancelled
    for index, times in ran.items():
        start_ms, wait_ms, _cancel = plan[index]
        assert len(times) == 1
        assert start_ms + wait_ms <= times[0] < start_ms + wait_ms + 10
    assert (wheel.count, wheel.is_armed) == (0, False)

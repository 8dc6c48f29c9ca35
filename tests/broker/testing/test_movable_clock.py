"""Time that tests move: what is due rings, in order and once."""

from __future__ import annotations

import asyncio
from functools import partial

from ottla.broker.testing.movable_clock import MovableClock
from ottla.wire.clock import RealClock

HOUR_MS = 3_600_000.0


async def turns() -> None:
    """Let the loop call what is ready."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_is_due_rings_in_its_order() -> None:
    """A later timer that rings first would see a state that cannot be."""
    clock = MovableClock(RealClock())
    rung: list[int] = []
    now_ms = clock.now_ms()
    for hours in (3, 1, 2, 5):
        clock.call_at(now_ms + hours * HOUR_MS, partial(rung.append, hours))

    clock.advance(4 * HOUR_MS)
    await turns()

    assert rung == [1, 2, 3]
    clock.close()


async def test_a_cancelled_timer_does_not_ring_though_it_was_due() -> None:
    """The one before it may be what cancels it."""
    clock, rung = MovableClock(RealClock()), []
    second = clock.call_at(clock.now_ms() + 2 * HOUR_MS, lambda: rung.append("second"))
    clock.call_at(clock.now_ms() + HOUR_MS, second.cancel)

    clock.advance(4 * HOUR_MS)
    await turns()

    assert rung == []
    clock.close()


async def test_held_timers_ring_at_the_release() -> None:
    """A process that was stopped finds all its deadlines over."""
    clock, rung = MovableClock(RealClock()), []
    clock.call_at(clock.now_ms() + HOUR_MS, lambda: rung.append(1))
    clock.hold()

    clock.advance(2 * HOUR_MS)
    await turns()
    assert rung == []
    clock.release()
    await turns()

    assert rung == [1]
    clock.close()


async def test_time_passes_by_itself_too() -> None:
    """Nothing waits for a test to move it."""
    clock = MovableClock(RealClock(), ahead_ms=HOUR_MS)
    begun_ms = clock.now_ms()

    await clock.sleep(20)

    assert clock.now_ms() - begun_ms >= 20
    clock.close()


async def test_a_jump_moves_the_date_alone() -> None:
    """The difference between a wrong clock and a long wait."""
    clock = MovableClock(RealClock())
    now_ms, wall_ms = clock.now_ms(), clock.wall_ms()

    clock.jump(-int(HOUR_MS))

    assert clock.now_ms() - now_ms < 60_000
    assert wall_ms - clock.wall_ms() > HOUR_MS - 60_000
    clock.close()


async def test_thousands_of_cancelled_timers_are_forgotten() -> None:
    """Every request of a client makes one and cancels it."""
    clock = MovableClock(RealClock())
    for _ in range(10_000):
        clock.call_at(clock.now_ms() + HOUR_MS, lambda: None).cancel()

    assert len(clock._timers) < 2_000
    clock.close()

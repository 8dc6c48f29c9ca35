"""The loop under virtual time: its clock, its order, and what a domain's end means."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.simulation.world.clock import SimClock
from tests.simulation.world.loop import BusyLoop, Deadlock, SimLoop
from tests.simulation.world.offload import SimOffload
from tests.simulation.world.process import ProcessEnded, SimProcess
from tests.simulation.world.random import SimRandom
from tests.simulation.world.world import World

if TYPE_CHECKING:
    from ottla.protocol.ports import Ports


def test_an_hour_passes_without_waiting() -> None:
    """Virtual time is what makes thousands of faults per minute affordable."""
    loop = SimLoop(SimRandom(1))
    loop.run_until_complete(asyncio.sleep(3600.0))

    assert loop.time() == 3600.0
    loop.close()


def test_waiting_for_nothing_is_reported_as_deadlock() -> None:
    """A lost wake-up must fail the run, not hang it."""
    loop = SimLoop(SimRandom(1))

    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_callbacks_that_keep_each_other_ready_are_a_busy_loop() -> None:
    """A readiness callback that does not read would burn a core in life."""
    loop = SimLoop(SimRandom(1))

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(BusyLoop):
        loop.run_until_complete(asyncio.sleep(1))
    loop.close()


def test_spinning_over_the_disk_without_ever_yielding_is_a_busy_loop() -> None:
    """An await that never suspends looks innocent and stops the whole broker."""
    world = World(1)

    async def program(ports: Ports) -> None:
        while True:
            try:
                ports.disk.open("/not there")
            except Exception:
                continue

    world.node("server", program)

    async def story() -> None:
        world.nodes["server"].start()
        await asyncio.sleep(1)

    world.run(story())
    assert len(world.violations) == 1
    assert world.violations[0].startswith("BusyLoop: at 0.0")


def test_ready_callbacks_run_in_the_order_they_came_and_equal_timers_do_not() -> None:
    """Shuffled callbacks show what cannot happen; simultaneous timers have no order in life."""
    orders = set()
    for seed in range(20):
        loop = SimLoop(SimRandom(seed))
        ready: list[int] = []
        timed: list[int] = []
        for number in range(5):
            loop.call_soon(ready.append, number)
            loop.call_at(1.0, timed.append, number)
        loop.run_until_complete(asyncio.sleep(2))
        loop.close()
        assert ready == [0, 1, 2, 3, 4]
        assert sorted(timed) == ready
        orders.add(tuple(timed))

    assert len(orders) > 10


def test_threads_are_refused() -> None:
    """A hidden thread would make every run its own."""
    loop = SimLoop(SimRandom(1))

    with pytest.raises(AssertionError, match="no threads"):
        loop.run_until_complete(asyncio.to_thread(print))
    loop.close()


def test_a_killed_process_does_not_even_clean_up() -> None:
    """SIGKILL runs no finally block; code that relies on one is what kills are meant to find."""
    loop = SimLoop(SimRandom(1))
    process = SimProcess(loop, "broker", 7)
    trace: list[str] = []

    async def work() -> None:
        try:
            while True:
                await asyncio.sleep(1.0)
                trace.append("work")
        finally:
            trace.append("clean-up")

    async def world() -> None:
        loop.create_task(work(), context=process.domain.context())
        await asyncio.sleep(2.5)
        loop.drop(process.domain)
        await asyncio.sleep(5)

    loop.run_until_complete(world())
    assert trace == ["work", "work"]
    loop.bury([process.domain])
    loop.close()


def test_a_stopped_process_runs_its_late_timers_when_it_continues() -> None:
    """After SIGCONT the clock has gone on and everything fires at once (hazard P-02)."""
    loop = SimLoop(SimRandom(1))
    process = SimProcess(loop, "broker", 7)
    trace: list[float] = []

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(1.0)
            trace.append(loop.time())

    async def world() -> None:
        loop.create_task(work(), context=process.domain.context())
        await asyncio.sleep(1.5)
        loop.stop_domain(process.domain)
        await asyncio.sleep(10)
        loop.continue_domain(process.domain)
        await asyncio.sleep(5)

    loop.run_until_complete(world())
    assert trace == [1.0, 11.5, 12.5]
    loop.close()


def test_the_dead_cannot_use_their_seams() -> None:
    """A coroutine of a killed process must not reach the world while it is closed."""
    loop = SimLoop(SimRandom(1))
    process = SimProcess(loop, "broker", 7)
    loop.drop(process.domain)

    with pytest.raises(ProcessEnded):
        SimOffload(loop, process, SimRandom(1)).run(len, "x")
    loop.close()


def test_clocks_drift_and_the_wall_jumps_but_monotonic_time_does_not() -> None:
    """Intervals are measured on the one, records stamped by the other (S-18)."""
    loop = SimLoop(SimRandom(1))
    clock = SimClock(loop, SimRandom(2), rate=1.01)
    before_ms, wall_before_ms = clock.now_ms(), clock.wall_ms()

    loop.run_until_complete(clock.sleep(1010.0))
    clock.jump_wall(-86_400_000)

    assert loop.time() == pytest.approx(1.0, abs=0.001)
    assert clock.now_ms() - before_ms == pytest.approx(1010.0, abs=1.0)
    assert clock.wall_ms() - wall_before_ms == pytest.approx(1010 - 86_400_000, abs=2)
    loop.close()


def test_a_timer_never_fires_before_its_deadline() -> None:
    """Code that asks "is it time?" in its own timer must get yes, whatever the rounding."""
    loop = SimLoop(SimRandom(1))
    random = SimRandom(3)
    early: list[float] = []

    async def world() -> None:
        for number in range(2000):
            clock = SimClock(loop, random.child(str(number)), rate=random.between(0.99, 1.01))
            deadline_ms = clock.now_ms() + random.between(0, 1000)
            fired = loop.create_future()
            clock.call_at(deadline_ms, lambda fired=fired: fired.set_result(None))  # type: ignore[misc]
            await fired
            if clock.now_ms() < deadline_ms:
                early.append(deadline_ms)

    loop.run_until_complete(world())
    assert early == []
    loop.close()


def test_children_of_a_random_source_do_not_depend_on_what_was_drawn() -> None:
    """One part drawing once more must not change what the others see."""
    first, second = SimRandom(5), SimRandom(5)
    second.random()

    assert first.child("net").token(8) == second.child("net").token(8)
    assert first.child("net").token(8) != first.child("disk").token(8)
    assert SimRandom(5).child("net").token(8) != SimRandom(6).child("net").token(8)

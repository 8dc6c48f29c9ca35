"""Time limits on our own clock, and background tasks."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.process.tasks import ClientTasks
from ottla.wire.deadline import TimeLimit
from ottla.wire.real import RealClock

LONG_S = 30


async def test_a_body_that_takes_too_long_is_ended() -> None:
    """With TimeoutError, and soon after the limit."""
    with pytest.raises(TimeoutError, match="within 10 ms"):
        async with TimeLimit(RealClock(), 10):
            await asyncio.sleep(LONG_S)


async def test_a_body_in_time_is_left_alone_for_good() -> None:
    """The timer must not strike what runs afterwards."""
    async with TimeLimit(RealClock(), 500):
        await asyncio.sleep(0)
    await asyncio.sleep(0.6)

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_error_of_the_body_stays_what_it_is() -> None:
    """A limit must not hide what really happened."""
    with pytest.raises(ValueError, match="mine"):
        async with TimeLimit(RealClock(), LONG_S * 1000):
            raise ValueError("mine")


async def test_a_cancellation_from_outside_is_no_timeout() -> None:
    """A caller that cancels a task wants it to end, not to continue after a timeout."""

    async def work() -> None:
        async with TimeLimit(RealClock(), LONG_S * 1000):
            await asyncio.sleep(LONG_S)

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_limits_may_be_nested() -> None:
    """The outer one ends the whole even while an inner one is open."""
    with pytest.raises(TimeoutError, match="within 10 ms"):
        async with TimeLimit(RealClock(), 10), TimeLimit(RealClock(), LONG_S * 1000):
            await asyncio.sleep(LONG_S)


async def test_a_task_that_dies_is_told() -> None:
    """Hazard P-05: a background task without a holder dies unseen."""
    crashes: list[BaseException] = []
    tasks = ClientTasks(crashes.append)

    async def die() -> None:
        raise RuntimeError("gone")

    tasks.start(die(), "dies")
    await asyncio.sleep(0.01)

    assert [str(crash) for crash in crashes] == ["gone"]


async def test_stopping_ends_all_tasks_and_is_no_crash() -> None:
    """No task may run after its owner has been closed."""
    crashes: list[BaseException] = []
    tasks = ClientTasks(crashes.append)
    ended: list[int] = []

    async def run(number: int) -> None:
        try:
            await asyncio.sleep(LONG_S)
        finally:
            ended.append(number)

    for number in range(3):
        tasks.start(run(number), f"task {number}")
    await asyncio.sleep(0)
    await tasks.stop()

    assert (sorted(ended), crashes) == ([0, 1, 2], [])


async def test_a_named_job_runs_once_at_a_time() -> None:
    """Ten errors of one broker are one reconnect."""
    started = 0
    done = 0

    async def job() -> None:
        nonlocal started
        started += 1
        await asyncio.sleep(0)

    def on_done() -> None:
        nonlocal done
        done += 1

    tasks = ClientTasks(lambda _: None)
    for _ in range(10):
        tasks.start_once("job", job, on_done)
    await asyncio.sleep(0.01)
    tasks.start_once("job", job, on_done)
    await asyncio.sleep(0.01)

    assert (started, done) == (2, 2)

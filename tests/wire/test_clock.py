"""Time limits on our own clock."""

from __future__ import annotations

import asyncio

import pytest

from ottla.wire.clock import RealClock, TimeLimit

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

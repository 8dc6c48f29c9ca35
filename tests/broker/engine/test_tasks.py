"""Background tasks of a server: how they end."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.engine.tasks import Tasks

MANY = 40


async def test_tasks_of_one_name_end_in_the_order_in_which_they_were_begun() -> None:
    """P-12: in any other order, two runs of one simulated seed would be two stories."""
    tasks = Tasks()
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    for number in range(MANY):
        tasks.spawn("work", work(number))
    await asyncio.sleep(0)
    await tasks.stop()

    assert ended == list(range(MANY))
    assert tasks.names == []


@pytest.mark.timeout(20)
async def test_a_stop_ends_when_all_tasks_ended_just_before() -> None:
    """Their ends have not been told yet; from Python 3.12 on, gather does not wait for that."""
    tasks = Tasks()

    async def work() -> None:
        pass

    for _ in range(MANY):
        tasks.spawn("work", work())
    await asyncio.sleep(0)
    assert tasks.names
    await tasks.stop()

    assert tasks.names == []

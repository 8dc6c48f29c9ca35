"""Background tasks of a server: how they end."""

from __future__ import annotations

import asyncio

from ottla.broker.tasks import Tasks

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

"""The background tasks of a client."""

from __future__ import annotations

import asyncio

from ottla.client.process.tasks import ClientTasks, guarded

LONG_S = 30


async def test_an_error_in_a_callback_is_told_and_not_only_logged() -> None:
    """A batch whose answer was never dealt with would be on its way for ever."""
    crashes: list[BaseException] = []
    future = asyncio.get_running_loop().create_future()
    future.add_done_callback(guarded(lambda done: done.result()["missing"], crashes.append))
    future.set_result({})
    await asyncio.sleep(0)

    assert [type(crash) for crash in crashes] == [KeyError]


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

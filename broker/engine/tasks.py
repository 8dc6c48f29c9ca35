"""The supervisor: every background task has a name, is awaited at the end, and dies in the open.

Nothing else in the broker calls ``create_task``. A task that fails unexpectedly is reported once,
with its name, to the function given at construction (hazard P-05: a component that died silently
looks like one that has nothing to do).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger("ottla.tasks")


class Tasks:
    """Owned by the server; lives as long as it. ``stop`` cancels what is left and waits for it."""

    def __init__(self, on_crash: Callable[[str, BaseException], object] | None = None) -> None:
        # In the order in which they were begun; that of a set would be the addresses'.
        self._running: dict[asyncio.Task[None], None] = {}
        self._on_crash = on_crash
        self._stopping = False
        self.crash_count = 0

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the coroutine in the background under that name."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running[task] = None
        task.add_done_callback(self._on_done)
        return task

    @property
    def names(self) -> list[str]:
        """What is running, for diagnostics."""
        return sorted(task.get_name() for task in self._running)

    async def stop(self) -> None:
        """Cancel every task and return when all have ended. New ones may not be spawned after."""
        self._stopping = True
        while self._running:
            running = sorted(self._running, key=lambda task: task.get_name())
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            if any(task in self._running for task in running):
                # From Python 3.12 on gather does not let the loop turn for what has ended already,
                # and without a turn the done callbacks do not run.
                await asyncio.sleep(0)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self.crash_count += 1
        logger.error("task %s died: %r", task.get_name(), error, exc_info=error)
        if self._on_crash is not None and not self._stopping:
            self._on_crash(task.get_name(), error)


async def stopped(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, if there is one, and return when it has ended."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await the work, which goes on although its caller is cancelled; that one is told afterwards.

    For files that others write as well: what was handed to a worker cannot be called back, and
    would meet the next writer's (hazard P-04). Raises what the work raises."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        task.result()
        return
    if not task.cancelled():
        # The waiter is gone: retrieve the exception so that asyncio does not log it.
        task.exception()
    raise cancelled

"""The background tasks of one client: none is dropped, and none fails unseen (hazard P-05)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.wire.clock import detached

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def guarded(
    callback: Callable[[asyncio.Future[Any]], None], on_crash: Callable[[BaseException], None]
) -> Callable[[asyncio.Future[Any]], None]:
    """Wrap a callback for ``add_done_callback``. The event loop would only log its exception, and
    what waits for the callback's work would wait for ever."""

    def call(future: asyncio.Future[Any]) -> None:
        try:
            callback(future)
        except Exception as error:
            on_crash(error)

    return call


class ClientTasks:
    """A client's running tasks. Owned by the client, which stops them when it closes."""

    __slots__ = ("_named", "_on_crash", "_running")

    def __init__(self, on_crash: Callable[[BaseException], None]) -> None:
        """``on_crash`` is called with the exception that ended a task."""
        self._on_crash = on_crash
        self._running: set[asyncio.Task[None]] = set()
        self._named: set[str] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run ``work`` as a task until it ends or the client stops."""
        task = asyncio.get_running_loop().create_task(work, name=name, context=detached())
        self._running.add(task)
        task.add_done_callback(self._on_done)

    def start_once(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]], done: Callable[[], None]
    ) -> None:
        """Run ``work`` unless a task of that name is running; call ``done`` when it ends."""
        if name in self._named:
            return
        self._named.add(name)

        async def run() -> None:
            try:
                await work()
            except Exception as error:
                # Before ``done``, which may start the same task again.
                self._on_crash(error)
            finally:
                self._named.discard(name)
                done()

        self.start(run(), name)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            self._on_crash(failure)

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

"""An event loop in a thread of its own, for callers that block and for callers that await."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

Result = TypeVar("Result")


class LoopThread:
    """Started once, stopped once, by any thread but its own. A daemon: it holds up no exit."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._is_ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    @property
    def thread_id(self) -> int | None:
        """As log records have it."""
        return self._thread.ident

    def start(self) -> None:
        """Return when the loop runs."""
        self._thread.start()
        self._is_ready.wait()

    def submit(self, work: Coroutine[object, object, Result]) -> Future[Result]:
        """Begin the work there."""
        assert self._loop is not None, "start comes first"
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Callable[[], Coroutine[object, object, Result]]) -> Result:
        """Do the work there and wait for its end; interrupted, it is cancelled. Raises
        RuntimeError in a child process, which has no such thread."""
        if not self._thread.is_alive():
            raise RuntimeError(
                "the cluster lives in the process that started it: a child made by a fork can use "
                "its bootstrap_servers, and nothing else of it"
            )
        assert threading.get_ident() != self._thread.ident, "it would wait for itself"
        future = self.submit(work())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop with all that is left on it, and the thread."""
        if self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()
            self._loop = None

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._is_ready.set()
        await self._end.wait()

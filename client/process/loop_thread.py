"""Runs an event loop in a thread of its own, for callers that block.

All blocking clients of a process share one such thread. A call runs there while its caller waits,
and can be interrupted. Callbacks of the application during a call (a rebalance listener, say) run
in the waiting thread, so that they may call clients themselves.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from contextvars import ContextVar, copy_context
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

Result = TypeVar("Result")

# Messages to the waiting thread: a callback to run there, or the finished task.
Inbox = SimpleQueue["Callable[[], None] | asyncio.Task[Any]"]

STOP_WAIT_S = 2.0
_INBOX: ContextVar[Inbox | None] = ContextVar("ottla_inbox", default=None)


class LoopThread:
    """The thread, which is a daemon, and its loop: by default a new one of the loop policy.

    Threads do not survive a fork: a child process has to make its own."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = asyncio.new_event_loop() if loop is None else loop
        self._process_id = os.getpid()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def thread_id(self) -> int | None:
        """The identity of the thread, as in log records."""
        return self._thread.ident

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs in this process."""
        return os.getpid() == self._process_id and self._thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Begin ``work`` on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def post(self, function: Callable[[], object]) -> None:
        """Call a function on the loop soon, without waiting for it."""
        self._loop.call_soon_threadsafe(function)

    def call(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run ``work`` on the loop and wait for its result; an interrupt cancels it. The caller's
        own event loop, if there is one, waits as well."""
        assert self.is_alive
        assert threading.get_ident() != self._thread.ident, "it would wait for itself"
        future = self.submit(work())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run(
        self, work: Coroutine[Any, Any, Result], on_lost: Callable[[], object] | None = None
    ) -> Result:
        """As ``call``, with callbacks of the application; after an interrupt (Ctrl-C) it waits for
        the end of the cancelled work.

        ``on_lost`` is called on the loop if the work succeeded although it was cancelled, so that
        its result is lost. Raises RuntimeError if the wait could never end."""
        try:
            self._check_may_wait()
        except RuntimeError:
            work.close()
            raise
        inbox: Inbox = SimpleQueue()
        tasks: list[asyncio.Task[Result]] = []

        def begin() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(inbox.put)

        context = copy_context()
        context.run(_INBOX.set, inbox)
        self._loop.call_soon_threadsafe(begin, context=context)
        try:
            result: Result = self._wait(inbox)
            return result
        except BaseException:
            # The task exists by now: both callbacks go through the loop's queue in order.
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            self._await_end(tasks, inbox)
            if on_lost is not None and has_result(tasks[0]):
                self._loop.call_soon_threadsafe(on_lost)
            raise

    def _check_may_wait(self) -> None:
        if os.getpid() != self._process_id:
            raise RuntimeError(
                "this client was made before a fork; make it in the process that uses it"
            )
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                "ottla.sync blocks, and an event loop is running in this thread: use the client "
                "of the same name in ottla, and await it"
            )
        if not self._thread.is_alive():
            raise RuntimeError("the process is ending")

    def _wait(self, inbox: Inbox) -> Any:
        while True:
            item = inbox.get()
            if isinstance(item, asyncio.Task):
                return item.result()
            item()

    def _await_end(self, tasks: list[asyncio.Task[Result]], inbox: Inbox) -> None:
        """Wait while a cancelled call cleans up, and run its callbacks here; a second interrupt
        ends the wait."""
        if tasks and tasks[0].done():
            return
        while not isinstance(item := inbox.get(), asyncio.Task):
            item()

    def stop(self, wait_s: float | None = None) -> None:
        """Stop the loop, which cancels all that is left on it, and wait for the thread's end, at
        most that long; None (default) for any time."""
        if self.is_alive:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(wait_s)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(cancel_all())
            self._loop.close()


async def cancel_all() -> None:
    """Cancel all other tasks of the running loop, and wait for their end for a while."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_WAIT_S)
    await asyncio.get_running_loop().shutdown_asyncgens()
    # Otherwise the thread that looked up a host name may outlive the loop.
    await asyncio.get_running_loop().shutdown_default_executor()


def has_result(task: asyncio.Task[Any]) -> bool:
    """Whether the task has succeeded."""
    return task.done() and not task.cancelled() and task.exception() is None


async def in_caller(function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function of the application in the thread that waits for the running call; without
    one, call it here."""
    inbox = _INBOX.get()
    if inbox is None:
        return function(*arguments)
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def work() -> None:
        try:
            result = function(*arguments)
        except Exception as error:
            loop.call_soon_threadsafe(_fail, outcome, error)
        else:
            loop.call_soon_threadsafe(_succeed, outcome, result)

    inbox.put(work)
    return await outcome


def _succeed(outcome: asyncio.Future[Result], result: Result) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _fail(outcome: asyncio.Future[Result], error: Exception) -> None:
    if not outcome.done():
        outcome.set_exception(error)


@cache
def _loop_of(process_id: int) -> LoopThread:
    thread = LoopThread("ottla-sync")
    atexit.register(thread.stop, STOP_WAIT_S)
    return thread


# Held only while the loop is created; a fork at that moment is not handled.
_MAKING = threading.Lock()


def shared_loop() -> LoopThread:
    """This process's loop thread, started at the first call."""
    with _MAKING:
        return _loop_of(os.getpid())

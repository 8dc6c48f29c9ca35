"""Runs the event loop of all blocking clients of a process, in a thread of its own.

A call runs there while its caller waits, and can be interrupted. Callbacks of the application
during a call (a rebalance listener, say) run in the waiting thread, so that they may call clients
themselves.
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

Result = TypeVar("Result")

# Messages to the waiting thread: a callback to run there, or the finished task.
Inbox = SimpleQueue["Callable[[], None] | asyncio.Task[Any]"]

STOP_WAIT_S = 2.0
_INBOX: ContextVar[Inbox | None] = ContextVar("ottla_inbox", default=None)


class LoopThread:
    """The thread and its loop; both end with the process. A child process has its own: threads do
    not survive a fork."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process_id = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="ottla-sync", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def run(
        self, work: Coroutine[Any, Any, Result], on_lost: Callable[[], object] | None = None
    ) -> Result:
        """Run ``work`` on the loop and wait for its result; an interrupt (Ctrl-C) cancels it first.

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

    def stop(self) -> None:
        """Stop the loop, which ends the calls that wait for it."""
        if os.getpid() == self._process_id and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_WAIT_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()


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
    return LoopThread()


# Held only while the loop is created; a fork at that moment is not handled.
_MAKING = threading.Lock()


def shared_loop() -> LoopThread:
    """This process's loop thread, started at the first call."""
    with _MAKING:
        return _loop_of(os.getpid())

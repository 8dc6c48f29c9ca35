"""What every blocking client is made of: the asyncio client, and the loop that runs it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.process.loop_thread import LoopThread, shared_loop
from ottla.client.process.unclosed import warn_unclosed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from contextlib import AbstractAsyncContextManager

Result = TypeVar("Result")


class Face:
    """Has no thoughts of its own: every public method of a subclass is one call of the client
    behind it, on the loop that all blocking clients of the process share."""

    def __init__(self, loop: LoopThread | None = None) -> None:
        self._loop = loop or shared_loop()

    def __del__(self) -> None:
        client: Any = getattr(self, "_client", None)
        if getattr(client, "_is_open", False):
            # Told once, and of what the application has made.
            client._is_open = False
            warn_unclosed(self)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._loop.run(work)

    def _take(self, work: Coroutine[Any, Any, Result]) -> Result:
        """As ``_run``, for what can be given back if an interrupt keeps it from the caller."""
        return self._loop.run(work, self._give_back)

    def _give_back(self) -> None:
        """The caller has not got what it was given last. Called on the loop."""

    def _call(self, function: Callable[[], Result]) -> Result:
        """Call what does not wait; it must not run beside the loop either."""

        async def called() -> Result:
            return function()

        return self._loop.run(called())

    def _iterate(self, make: Callable[[], AsyncIterator[Result]]) -> Iterator[Result]:
        """The items of an asynchronous iterator, one call each."""
        items = self._call(make)
        try:
            while True:
                try:
                    item = self._take(_next(items))
                except _End:
                    return
                yield item
        finally:
            self._run(_closed(items))

    @contextmanager
    def _within(self, make: Callable[[], AbstractAsyncContextManager[None]]) -> Iterator[None]:
        """A block that begins and ends on the loop."""
        block = self._call(make)
        self._run(block.__aenter__())
        try:
            yield
        except BaseException as error:
            if not self._run(block.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._run(block.__aexit__(None, None, None))


async def _next(items: AsyncIterator[Result]) -> Result:
    try:
        return await anext(items)
    except StopAsyncIteration as end:
        # It may not leave a coroutine as itself.
        raise _End from end


async def _closed(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


class _End(Exception):
    """An iterator has no more items."""

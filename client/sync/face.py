"""The base of the blocking clients: the asyncio client, and the loop that runs it."""

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
    """Runs the methods of an asyncio client on the loop that all blocking clients share."""

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
        """Like ``_run``, for results that can be given back if an interrupt keeps them from the
        caller."""
        return self._loop.run(work, self._give_back)

    def _give_back(self) -> None:
        """Undo the last ``_take``, whose result the caller did not get. Called on the loop."""

    def _call(self, function: Callable[[], Result]) -> Result:
        """Call a function that does not wait, on the loop, because it is not thread-safe."""

        async def called() -> Result:
            return function()

        return self._loop.run(called())

    def _iterate(self, make: Callable[[], AsyncIterator[Result]]) -> Iterator[Result]:
        """Iterate over an asynchronous iterator, one call for each item."""
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

"""Threads for handlers that are plain functions, behind the ``Offload`` seam."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Result = TypeVar("Result")


class HandlerThreads:
    """Owned by one parallel run, which closes it. A thread cannot be interrupted: a function that
    nobody waits for any more runs to its end."""

    __slots__ = ("_executor",)

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="ottla-handler")

    def run(self, function: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        """Call it in a thread."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._executor, function, *arguments)

    def close(self) -> None:
        """Take no more work. What still runs is not waited for."""
        self._executor.shutdown(wait=False)

"""Runs handlers that are plain functions in threads, behind the ``Offload`` seam."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Result = TypeVar("Result")


class HandlerThreads:
    """A pool of threads. Owned by one parallel run, which closes it. A thread cannot be
    interrupted: a function whose result is no longer awaited runs to its end."""

    __slots__ = ("_executor",)

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="ottla-handler")

    def run(self, function: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        """Call ``function`` in a thread."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._executor, function, *arguments)

    def close(self) -> None:
        """Accept no more work. Running functions are not waited for."""
        self._executor.shutdown(wait=False)

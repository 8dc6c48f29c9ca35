"""Worker threads without threads: the work runs inline, after a seeded virtual delay."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from tests.simulation.world.loop import SimLoop
    from tests.simulation.world.process import SimProcess
    from tests.simulation.world.random import SimRandom

Result = TypeVar("Result")


class SimOffload:
    """``ports.Offload``. Jobs finish in an order that has nothing to do with how they came."""

    def __init__(
        self, loop: SimLoop, process: SimProcess, random: SimRandom, mean_ms: float = 0.5
    ) -> None:
        self._loop = loop
        self._process = process
        self._random = random
        self._mean_ms = mean_ms

    def run(self, function: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        """A thread continues when its waiter is cancelled; so does the work here."""
        self._process.check()
        waiter: asyncio.Future[Result] = self._loop.create_future()

        def work() -> None:
            try:
                result = function(*arguments)
            except Exception as error:
                if not waiter.done():
                    waiter.set_exception(error)
            else:
                if not waiter.done():
                    waiter.set_result(result)

        self._loop.call_later(self._random.exponential(self._mean_ms) / 1_000.0, work)
        return waiter

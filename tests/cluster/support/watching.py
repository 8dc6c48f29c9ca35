"""Questions put again and again while a cluster is in trouble, and every answer to them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.errors import ErrorCode
from tests.cluster.support.wire import PATIENCE_S, SILENCE, raw

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.raw_client import RawClient

EVERY_S = 0.1


class Answer(NamedTuple):
    """Seconds of the monotonic clock; ``said`` is an excuse in words if no broker answered."""

    sent: float
    came: float
    said: int | str

    def __str__(self) -> str:
        said = ErrorCode(self.said).name if isinstance(self.said, int) else self.said
        return f"{said} in {(self.came - self.sent) * 1000:.0f} ms"


class Watch:
    """Asks one broker the same over one connection, from ``start`` to ``stop``."""

    def __init__(self, name: str, address: str, ask: Callable[[RawClient], Awaitable[int]]) -> None:
        self.name = name
        self.answers: list[Answer] = []
        self._address = address
        self._ask = ask
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            sent = time.monotonic()
            try:
                async with raw(self._address) as client:
                    while True:
                        sent = time.monotonic()
                        async with asyncio.timeout(PATIENCE_S):
                            said = await self._ask(client)
                        self._note(sent, said)
                        await asyncio.sleep(EVERY_S)
            except SILENCE as error:
                self._note(sent, repr(error))
                await asyncio.sleep(EVERY_S)

    def _note(self, sent: float, said: int | str) -> None:
        self.answers.append(Answer(sent, time.monotonic(), said))

    def between(self, begun: float, ended: float) -> list[Answer]:
        """The answers to what was sent in that time."""
        return [one for one in self.answers if begun <= one.sent <= ended]

    def codes(self, begun: float, ended: float) -> set[int | str]:
        """Answers to requests that were sent in that time."""
        return {one.said for one in self.between(begun, ended)}

    def first(self, said: int, after: float) -> float:
        """When that was answered for the first time after a moment; seconds since then, or -1."""
        times = [one.came for one in self.answers if one.said == said and one.came > after]
        return times[0] - after if times else -1.0

    def tale(self, begun: float) -> str:
        """Answers and their times, in seconds since a moment."""
        told, last = [], None
        for one in self.answers:
            if one.said != last:
                told.append(f"{one.sent - begun:+.2f} s {one}")
                last = one.said
        return f"{self.name}: {', '.join(told)}"

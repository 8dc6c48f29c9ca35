"""Records what happens to topics while visitors look at them, and for an hour after that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.console.views.history import HISTORY_MS, STEP_MS, History
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ottla.client.console.views.history import SeenPartition
    from ottla.protocol.ports import Clock

    ReadStates = Callable[[], Awaitable[Mapping[int, SeenPartition]]]

RECORDINGS_MAX = 4


class Recording:
    """The history of one topic, and the task that adds to it."""

    def __init__(self, clock: Clock, read: ReadStates) -> None:
        self.history = History()
        self.last_ms = clock.now_ms()
        self._clock = clock
        self._read = read
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take the first moment and go on in the background. Raises ClientError."""
        await self._take()
        self._task = asyncio.ensure_future(self._go_on())

    @property
    def is_running(self) -> bool:
        """Whether it still adds moments."""
        return self._task is not None and not self._task.done()

    async def _take(self) -> None:
        states = await self._read()
        self.history.add(self._clock.wall_ms(), states)

    async def _go_on(self) -> None:
        while self._clock.now_ms() - self.last_ms <= HISTORY_MS:
            await self._clock.sleep(STEP_MS)
            try:
                await self._take()
            except ClientError:
                # A gap in the history: the cluster does not answer now.
                continue

    def stop(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()


class Recordings:
    """The recordings of one connection, by topic; the one that was longest unused goes first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[str, Recording] = {}

    async def of(self, topic: str, read: ReadStates) -> Recording:
        """The recording of a topic, which begins now if there is none. Raises ClientError."""
        recording = self._found.pop(topic, None)
        if recording is None or not recording.is_running:
            recording = Recording(self._clock, read)
            await recording.start()
        recording.last_ms = self._clock.now_ms()
        other = self._found.pop(topic, None)
        if other is not None:
            other.stop()
        while len(self._found) >= RECORDINGS_MAX:
            self._found.pop(next(iter(self._found))).stop()
        self._found[topic] = recording
        return recording

    def close(self) -> None:
        """End all of them."""
        for recording in self._found.values():
            recording.stop()
        self._found.clear()

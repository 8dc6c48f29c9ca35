"""Records the states of partitions while visitors view them, and for an hour after that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.client.console.views.history import HISTORY_MS, STEP_MS
from ottla.wire.errors import ClientClosed, ClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock

    ReadMoment = Callable[[Collection[TopicPartition]], Awaitable[Any]]

# Limits for one kind of one visitor, and for all: recordings of partitions take up to 20 MB each,
# others much less.
RECORDINGS_MAX = 4
ALL_RECORDINGS_MAX = 12
# The logs of this many partitions are read on all replicas.
WATCHED_MAX = 200
# This long after the last view, a recording reads less often.
LOOK_MS = 30_000.0
QUIET_STEP_MS = 10_000.0
# Time per partition: reading 5,000 takes 0.2 s of a core.
PARTITION_STEP_MS, QUIET_PARTITION_STEP_MS = 1.0, 4.0


class Recorded(Protocol):
    """The history of a recording, which limits its own size."""

    @property
    def partitions(self) -> int: ...

    def add(self, at_ms: int, moment: Any) -> None: ...


Kept = TypeVar("Kept", bound=Recorded)


class Recording(Generic[Kept]):
    """A history, and the task that adds to it."""

    def __init__(self, clock: Clock, read: ReadMoment, history: Kept) -> None:
        self.history = history
        self.last_ms = clock.now_ms()
        self.is_stopped = False
        self._clock = clock
        self._read = read
        self._task: asyncio.Task[None] | None = None
        self._watched: dict[TopicPartition, float] = {}
        self._moved = asyncio.Event()

    async def start(self) -> None:
        """Take the first moment and continue in the background. Raises ClientError."""
        await self.take()
        self._task = asyncio.ensure_future(self._go_on())

    @property
    def is_running(self) -> bool:
        """Whether the recording still adds moments."""
        return self._task is not None and not self._task.done()

    async def watch(self, partitions: Iterable[TopicPartition]) -> None:
        """Read all replicas of these partitions for the next while. Raises ClientError."""
        now_ms = self._clock.now_ms()
        self.last_ms = now_ms
        is_new = False
        for where in partitions:
            is_new |= self._watched.pop(where, None) is None
            self._watched[where] = now_ms
        while len(self._watched) > WATCHED_MAX:
            del self._watched[next(iter(self._watched))]
        if is_new:
            await self.take()

    async def moved(self) -> None:
        """Wait for the next moment, or for the end of the recording."""
        await self._moved.wait()

    async def take(self) -> None:
        """Add a moment now. Raises ClientError."""
        since_ms = self._clock.now_ms() - LOOK_MS
        self._watched = {one: at for one, at in self._watched.items() if at >= since_ms}
        moment = await self._read(list(self._watched))
        self.history.add(self._clock.wall_ms(), moment)
        self._tell()

    def _tell(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def step_ms(self) -> float:
        """How long to wait for the next moment: more partitions are read less often."""
        is_seen = self._clock.now_ms() - self.last_ms <= LOOK_MS
        count = self.history.partitions
        if is_seen:
            return max(STEP_MS, count * PARTITION_STEP_MS)
        return max(QUIET_STEP_MS, count * QUIET_PARTITION_STEP_MS)

    async def _go_on(self) -> None:
        while self._clock.now_ms() - self.last_ms <= HISTORY_MS:
            await self._clock.sleep(self.step_ms())
            try:
                await self.take()
            except ClientError:
                # A gap in the history: the cluster does not answer now.
                continue

    def stop(self) -> None:
        """End the task."""
        self.is_stopped = True
        if self._task is not None:
            self._task.cancel()
        self._tell()


class RecordingPlaces:
    """The recordings of all visitors; the least recently used one is removed first."""

    def __init__(self) -> None:
        self._held: dict[Recording[Any], None] = {}

    def take(self, recording: Recording[Any]) -> None:
        """Hold a slot for a recording that is used now."""
        self._held.pop(recording, None)
        for ended in [one for one in self._held if one.is_stopped or not one.is_running]:
            del self._held[ended]
        alike = [one for one in self._held if is_alike(one, recording)]
        for oldest in alike[: max(0, len(alike) - ALL_RECORDINGS_MAX + 1)]:
            del self._held[oldest]
            oldest.stop()
        self._held[recording] = None


def is_alike(one: Recording[Any], other: Recording[Any]) -> bool:
    """Whether both recordings are of the same kind: a recording of groups does not end one of
    partitions."""
    return type(one.history) is type(other.history)


class Recordings:
    """The recordings of one connection by name; the least recently used one is removed first."""

    def __init__(self, clock: Clock, places: RecordingPlaces) -> None:
        self._clock = clock
        self._places = places
        self._found: dict[str, Recording[Any]] = {}
        self._is_closed = False

    async def of(self, name: str, read: ReadMoment, make: Callable[[], Kept]) -> Recording[Kept]:
        """Return the recording of that name; start it if there is none. Raises ClientError."""
        recording: Recording[Kept] | None = self._found.pop(name, None)
        if recording is None or not recording.is_running:
            recording = Recording(self._clock, read, make())
            await recording.start()
            if self._is_closed:
                recording.stop()
                raise ClientClosed("you have logged out")
        recording.last_ms = self._clock.now_ms()
        other = self._found.pop(name, None)
        if other is not None and other is not recording:
            other.stop()
        alike = [one for one, found in self._found.items() if is_alike(found, recording)]
        for oldest in alike[: max(0, len(alike) - RECORDINGS_MAX + 1)]:
            self._found.pop(oldest).stop()
        self._found[name] = recording
        self._places.take(recording)
        return recording

    def close(self) -> None:
        """End all recordings, and start no other."""
        self._is_closed = True
        for recording in self._found.values():
            recording.stop()
        self._found.clear()

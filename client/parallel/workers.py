"""Runs the tasks of a parallel run: each handles the next record that may begin."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from ottla.client.parallel.policy import DeadLetter, HandlerFailed, next_step
from ottla.client.process.tasks import ClientTasks
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.client.parallel.policy import OnError, RecordHandler
    from ottla.client.parallel.scheduler import Lanes, QueuedRecord
    from ottla.client.records.consumer_record import ConsumerRecord
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock, Offload, Random, Timer

    Record = ConsumerRecord[Any, Any]

logger = logging.getLogger(__name__)

# How long a cancelled handler may take to notice.
CUT_WAIT_MS = 1_000.0


class WorkerPorts(NamedTuple):
    """Clock, random source, and threads for handlers that are plain functions."""

    clock: Clock
    random: Random
    threads: Offload


class Workers:
    """Owned by one parallel run. Begin with ``start``, end with ``join``."""

    def __init__(
        self,
        lanes: Lanes[Record],
        handler: RecordHandler,
        on_error: OnError,
        on_room: Callable[[], object],
        world: WorkerPorts,
    ) -> None:
        """``on_room`` is called when a paused partition may resume."""
        self._lanes = lanes
        self._handler = handler
        self._is_awaitable = is_coroutine(handler)
        self._on_error = on_error
        self._on_room = on_room
        self._world = world
        self._tasks = ClientTasks(self._on_crash)
        self._alive_count = 0
        self._parked: deque[asyncio.Future[None]] = deque()
        self._running: dict[QueuedRecord[Record], asyncio.Task[Any]] = {}
        # Works that were cancelled by ``cut``: their workers continue.
        self._cut: set[QueuedRecord[Record]] = set()
        self._timer: Timer | None = None
        self._progress = asyncio.Event()
        self.is_ending = False
        self.failure: BaseException | None = None
        self.handled_count = 0
        self.skipped_count = 0

    def start(self, count: int) -> None:
        """Start that many workers."""
        for number in range(count):
            self._alive_count += 1
            self._tasks.start(self._work(), f"handler-{number}")

    def wake(self) -> None:
        """Wake workers for new records."""
        for _ in range(min(self._lanes.ready_count, len(self._parked))):
            self._wake_one()

    def end(self, failure: BaseException | None = None) -> None:
        """Begin no more records; running handlers continue."""
        self.is_ending = True
        self.failure = self.failure or failure
        while self._parked:
            self._wake_one()

    async def join(self, limit_ms: float) -> None:
        """End, wait for running handlers, and cancel them at the limit."""
        self.end()
        await self._until(lambda: self._alive_count == 0, limit_ms)
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.stop()

    async def drain(self, partitions: Iterable[TopicPartition], limit_ms: float) -> None:
        """Wait for running handlers of these partitions, and cancel them at the limit."""
        wanted = list(partitions)
        if not await self._until(lambda: not self._lanes.running(wanted), limit_ms):
            self.cut(wanted)
            await self._until(lambda: not self._lanes.running(wanted), CUT_WAIT_MS)

    def cut(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Cancel running handlers, of these partitions or all: their records are not done."""
        for work in self._lanes.running(partitions):
            task = self._running.get(work)
            if task is not None and work not in self._cut:
                logger.warning("the handler of %s is cancelled", place(work.item))
                self._cut.add(work)
                task.cancel()

    async def _until(self, is_so: Callable[[], bool], limit_ms: float) -> bool:
        try:
            async with TimeLimit(self._world.clock, limit_ms):
                while not is_so():
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return is_so()
        return True

    # One worker.

    async def _work(self) -> None:
        try:
            while not self.is_ending:
                work = self._lanes.start(self._world.clock.now_ms())
                self._arm()
                if work is None:
                    await self._park()
                else:
                    await self._handle(work)
        finally:
            self._alive_count -= 1
            self._progress.set()

    async def _park(self) -> None:
        place_to_wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked.append(place_to_wait)
        await place_to_wait

    def _wake_one(self) -> None:
        while self._parked:
            parked = self._parked.popleft()
            if not parked.done():
                parked.set_result(None)
                return

    def _arm(self) -> None:
        """Set the timer that wakes a worker for the next delayed record."""
        next_ms = self._lanes.next_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_ms is not None:
            self._timer = self._world.clock.call_at(next_ms, self._wake_one)

    async def _handle(self, work: QueuedRecord[Record]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running[work] = task
        try:
            await self._attempt(work)
        except asyncio.CancelledError:
            self._lanes.drop(work)
            if work not in self._cut:
                raise
        finally:
            del self._running[work]
            if work in self._cut:
                self._cut.remove(work)
                task.uncancel()
            self._progress.set()
        if self._lanes.has_room(work):
            self._on_room()
        self.wake()

    async def _attempt(self, work: QueuedRecord[Record]) -> None:
        record = work.item
        try:
            if self._is_awaitable:
                result = self._handler(record)
            else:
                result = await self._world.threads.run(self._handler, record)
            if inspect.isawaitable(result):
                await result
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # A future that the handler awaited was cancelled, not this worker. If it ended now, no
            # other worker would take its place, and the position would never move.
            await self._failed(work, ClientError("what the handler waited for was cancelled"))
        except Exception as error:
            await self._failed(work, error)
        else:
            self.handled_count += 1
            self._lanes.finish(work)

    async def _failed(self, work: QueuedRecord[Record], error: Exception) -> None:
        failures = work.failures + 1
        step = next_step(self._on_error, failures, self._world.random.random())
        if isinstance(step, DeadLetter):
            try:
                await step.send(work.item, error, failures)
            except Exception as trouble:
                self._stop_at(work, failures, f"{error}; nor is there a dead letter", trouble)
            else:
                self.skipped_count += 1
                self._lanes.finish(work)
        elif step == "stop":
            self._stop_at(work, failures, str(error), error)
        elif step == "skip":
            logger.warning("%s is skipped: %r", place(work.item), error)
            self.skipped_count += 1
            self._lanes.finish(work)
        else:
            logger.info("%s is tried again in %.0f ms: %r", place(work.item), step, error)
            self._lanes.retry(work, self._world.clock.now_ms() + step)
            self._arm()

    def _stop_at(
        self, work: QueuedRecord[Record], failures: int, reason: str, cause: Exception
    ) -> None:
        failure = HandlerFailed(work.item, failures, reason)
        failure.__cause__ = cause
        # Ended first: the next record of its lane must not begin.
        self.end(failure)
        self._lanes.drop(work)

    def _on_crash(self, error: BaseException) -> None:
        self.end(error)


def is_coroutine(handler: RecordHandler) -> bool:
    """Return whether calling the handler returns at once."""
    call = getattr(type(handler), "__call__", None)  # noqa: B004 - of an object that is callable
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def place(record: Record) -> str:
    """Return the record's position as text, for messages."""
    return f"the record at {record.topic}-{record.partition} offset {record.offset}"

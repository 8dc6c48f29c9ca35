"""Runs many handlers at once, and still handles each key in order.

    run = consumer.parallel(handle, concurrency=32)
    await run

The scheduler (``parallel/scheduler.py``) decides what may begin and what may be committed. One
task polls, so the group sees a live member however long a handler takes, and workers call the
handler. Guarantees and limits: docs/parallel.md.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from ottla.client.parallel.policy import check_on_error
from ottla.client.parallel.scheduler import Lanes, Ordering
from ottla.client.parallel.workers import WorkerPorts, Workers
from ottla.client.process.tasks import ClientTasks
from ottla.client.process.threads import HandlerThreads
from ottla.client.records.arguments import whole
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import ClientClosed, ClientError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from ottla.client.group.group_member import GroupMember
    from ottla.client.parallel.policy import OnError, ParallelLimits, RecordHandler
    from ottla.client.process.environment import Environment
    from ottla.client.records.committed import Committed
    from ottla.client.records.consumer_record import ConsumerRecord

    Record = ConsumerRecord[Any, Any]

logger = logging.getLogger(__name__)

# How long one poll waits, and so the longest delay before a run notices ``stop``.
POLL_WAIT_MS = 200.0
RECORDS_PER_POLL = 500
# The longest wait for the answer to the last commit.
LAST_COMMIT_MS = 10_000.0


class RecordSource(Protocol):
    """The part of a consumer that a run needs."""

    @property
    def assignment(self) -> list[TopicPartition]: ...

    async def poll(self, max_wait_ms: float = ..., max_records: int = ...) -> list[Record]: ...

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...


class Committing(NamedTuple):
    """The consumer's group, if it has one, and the commit interval; None for no commits."""

    group: GroupMember | None
    interval_ms: float | None


class RunPlan(NamedTuple):
    """The handler and how to call it."""

    handler: RecordHandler
    concurrency: int
    ordering: Ordering
    on_error: OnError
    limits: ParallelLimits


class Counts(NamedTuple):
    """The progress of a run. ``skipped`` includes dead letters."""

    handled: int
    skipped: int
    running: int


class ParallelRun:
    """A run of many handlers: await it once, to begin it and to wait for its end.

    During the run the application must not poll the consumer; the run commits instead of the
    consumer. The run ends by ``stop``, by closing the consumer, by cancelling the task that awaits
    it, or with HandlerFailed. The consumer's position is then the first unfinished record."""

    def __init__(
        self,
        consumer: RecordSource,
        committing: Committing,
        plan: RunPlan,
        environment: Environment,
    ) -> None:
        if not callable(plan.handler):
            raise TypeError(f"a handler is a function, not {plan.handler!r}")
        if whole("concurrency", plan.concurrency) < 1:
            raise ValueError("concurrency has to be at least 1")
        check_on_error(plan.on_error)
        if plan.ordering not in ("key", "partition", "none"):
            raise ValueError(f"ordering is 'key', 'partition' or 'none', not {plan.ordering!r}")
        self._consumer = consumer
        self._group = committing.group
        self._interval_ms = committing.interval_ms
        self._plan = plan
        self._clock = environment.clock
        self._next_commit_ms = 0.0
        self._has_begun = False
        self._lanes: Lanes[Record] = Lanes(plan.ordering, plan.limits.window_max)
        self._threads = HandlerThreads(plan.concurrency)
        world = WorkerPorts(environment.clock, environment.random, self._threads)
        self._workers = Workers(self._lanes, plan.handler, plan.on_error, self._turn_taps, world)
        self._tasks = ClientTasks(self._workers.end)

    def __await__(self) -> Generator[Any, None, None]:
        return self.run().__await__()

    async def run(self) -> None:
        """Begin the run and wait for its end.

        Raises:
            HandlerFailed: A handler failed and ``on_error`` says to stop.
            ClientError: As ``poll``; or the run has begun already, or another run is in progress.
        """
        if self._has_begun:
            raise ClientError("a run begins once: ask the consumer for another")
        if self._group is not None and self._group.offsets.is_delegated:
            raise ClientError("another run of this consumer is under way: wait for its end")
        self._has_begun = True
        if self._group is not None:
            self._group.attach(self)
        try:
            await self._read()
        except asyncio.CancelledError:
            self._workers.cut()
            raise
        finally:
            await self._end()
        if self._workers.failure is not None:
            raise self._workers.failure

    def stop(self) -> None:
        """Begin no more records; the run ends when the running handlers are done."""
        self._workers.end()

    @property
    def counts(self) -> Counts:
        """The progress so far."""
        workers = self._workers
        return Counts(workers.handled_count, workers.skipped_count, len(self._lanes.running()))

    def positions(self) -> dict[TopicPartition, int]:
        """Return the first unfinished offset of each partition. A consumer without a group stores
        them itself."""
        return self._lanes.positions()

    async def commit(self) -> None:
        """Commit the progress now.

        Raises:
            CommitFailed: Another member has the partitions now.
            RequestRefused: The coordinator refused.
            TransportError: The coordinator did not answer.
        """
        positions = self._lanes.to_commit()
        if self._group is None or not positions:
            return
        try:
            await self._group.offsets.commit(positions, self._group.identity)
        except BaseException:
            self._lanes.uncommit(positions)
            raise

    # Reading.

    async def _read(self) -> None:
        await self.on_assigned(self._consumer.assignment)
        self._workers.start(self._plan.concurrency)
        has_polled = False
        while not self._workers.is_ending:
            self._turn_taps()
            try:
                records = await self._consumer.poll(POLL_WAIT_MS, RECORDS_PER_POLL)
            except ClientClosed:
                if has_polled:
                    return
                raise
            has_polled = True
            for record in records:
                where = TopicPartition(record.topic, record.partition)
                self._lanes.take(where, record.offset, key_of(record), record)
            self._workers.wake()
            self._commit_if_due()

    def _turn_taps(self) -> None:
        full, free = self._lanes.turn_taps()
        if full or free:
            assigned = set(self._consumer.assignment)
            if full := [one for one in full if one in assigned]:
                self._consumer.pause(*full)
            if free := [one for one in free if one in assigned]:
                self._consumer.resume(*free)

    def _commit_if_due(self) -> None:
        now_ms = self._clock.now_ms()
        if self._interval_ms is not None and now_ms >= self._next_commit_ms:
            self._next_commit_ms = now_ms + self._interval_ms
            self._tasks.start_once("commit", self._commit_quietly, lambda: None)

    async def _commit_quietly(self) -> None:
        try:
            await self.commit()
        except ClientError as error:
            logger.warning("positions are not stored: %s", error)

    async def _end(self) -> None:
        """Wait for the running handlers, commit the progress, and release the consumer."""
        try:
            await self._workers.join(self._plan.limits.drain_timeout_ms)
            await self._tasks.stop()
            await self._commit_at_last()
        finally:
            self._threads.close()
            if self._group is not None:
                self._group.attach(None)
            self._give_back()

    async def _commit_at_last(self) -> None:
        if self._interval_ms is None:
            return
        try:
            async with TimeLimit(self._clock, LAST_COMMIT_MS):
                await self._commit_quietly()
        except TimeoutError:
            logger.warning("positions are not stored: no answer in time")

    def _give_back(self) -> None:
        """Seek to the first unfinished records, so that the next poll reads them again."""
        assigned = set(self._consumer.assignment)
        for partition, offset in self._lanes.positions().items():
            if partition in assigned:
                self._consumer.seek(partition, offset)
                self._consumer.resume(partition)

    # What the group decides.

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called by the group: begin with the unfinished records of new partitions.

        Args:
            partitions: The assigned partitions.
        """
        stored = await self._stored(partitions)
        for partition in partitions:
            self._lanes.assign(partition, stored.get(partition))

    async def _stored(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Committed]:
        if self._group is None or not partitions:
            return {}
        try:
            return await self._group.offsets.stored(partitions)
        except ClientError as error:
            # Some records are handled twice, which is allowed.
            logger.info("what was done out of order is not known: %s", error)
            return {}

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called by the group: wait for the running handlers of these partitions and commit their
        progress, where the next member begins.

        Args:
            partitions: The revoked partitions.
        """
        self._lanes.give_up(partitions)
        try:
            await self._workers.drain(partitions, self._plan.limits.drain_timeout_ms)
            await self._commit_at_last()
        finally:
            # A commit after this would move the next owner's position back.
            self._lanes.forget(partitions)

    def on_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Called by the group: cancel the handlers of these partitions, because another member may
        read them already.

        Args:
            partitions: The lost partitions.
        """
        gone = list(partitions)
        self._lanes.give_up(gone)
        self._workers.cut(gone)
        self._lanes.forget(gone)


def key_of(record: Record) -> object:
    """The key as a hashable value; a deserializer may return keys of any type."""
    key = record.key
    return key if key is None or isinstance(key, bytes | str | int) else repr(key)

"""Reads records, from partitions that the group assigns or that the application chooses.

A consumer that subscribes shares the topics with the other members of its group, and the group
stores the positions. A consumer that assigns says where to begin, and may store its positions
anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.routing import Router
from ottla.client.fetching.deserialization import Reading, reading
from ottla.client.fetching.fetcher import Fetcher
from ottla.client.fetching.offsets import OffsetAt, check_times, list_offsets
from ottla.client.fetching.positions import LATEST_TIMESTAMP
from ottla.client.group.calls import GroupCalls
from ottla.client.parallel.parallel import Committing, ParallelRun, RunPlan
from ottla.client.parallel.policy import ParallelLimits
from ottla.client.process.environment import Environment, real_environment
from ottla.client.process.errors import not_running, started_before
from ottla.client.process.unclosed import warn_unclosed
from ottla.client.records.arguments import check_wait, partitions_of, whole
from ottla.client.records.serializers import ReadKey, ReadValue
from ottla.client.settings.config import ConsumerConfig, parse_addresses
from ottla.client.settings.keywords import ConsumerSettings, configured
from ottla.client.settings.listing import lists_settings
from ottla.protocol.ids import TopicPartition
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import ClientClosed, ClientError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from ottla.client.fetching.batch_reading import Take
    from ottla.client.fetching.batches import ConsumerRecord
    from ottla.client.fetching.completed_fetch import CompletedFetch
    from ottla.client.parallel.policy import OnError
    from ottla.client.parallel.scheduler import Ordering
    from ottla.protocol.ports import Clock

RECORDS_PER_POLL_MAX = 500
# How many records the iterator takes at a time; they are in memory anyway.
RECORDS_PER_STEP = 2_000
STEP_WAIT_MS = 60_000.0


@lists_settings(ConsumerConfig)
class Consumer(GroupCalls, Generic[ReadKey, ReadValue]):
    """Reads records of assigned partitions, on one event loop; one task at a time may poll.

    Records hold bytes unless the consumer has deserializers. Leaving the ``async with`` block
    commits what was returned (with automatic commits) and leaves the group.

    Args:
        bootstrap: Addresses of some brokers, as ``"host:port,host:port"``; the port defaults to
            9092.
        config: Settings as an object; the defaults of ``ConsumerConfig`` if None.
        environment: Clock, network and random source; the real ones if None. For simulations.
        settings: Single settings, which override those of ``config``.

    Raises:
        ValueError: A setting has an invalid value, or settings contradict each other.
        TypeError: A setting is unknown or has the wrong type.

    Example:
        async with ottla.Consumer("127.0.0.1:9092", group_id="billing") as consumer:
            await consumer.subscribe(["orders"])
            async for record in consumer:
                print(record.offset, record.value)
    """

    # Started and not closed, for ``__del__``, which also runs if ``__init__`` has failed.
    _is_open = False

    def __init__(
        self,
        bootstrap: str,
        config: ConsumerConfig | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ConsumerSettings[ReadKey, ReadValue]],
    ) -> None:
        self.config = configured(config or ConsumerConfig(), settings)
        self._reading = reading(self.config)
        self._environment = environment or real_environment()
        self._cluster = ClusterClient(self._environment, parse_addresses(bootstrap), self.config)
        router = Router(self._cluster)
        super().__init__(router, Fetcher(router, self.config), self.config)
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Connect to the cluster and start fetching. ``async with`` calls it.

        Raises:
            TransportError: No broker answered; BrokerUnreachable for a wrong address.
            ClientClosed: The consumer was started before.
        """
        if self._closed or self._started:
            raise ClientClosed(started_before("consumer"))
        try:
            await self._cluster.refresh()
        except BaseException:
            self._cluster.close()
            raise
        self._started = self._is_open = True
        self._fetcher.start()

    async def close(self) -> None:
        """End the consumer: commit what was returned, leave the group, close the connections.

        A second call does nothing. It raises what a rebalance listener raises."""
        await self._close(has_failed=False)

    async def _close(self, *, has_failed: bool) -> None:
        if self._closed:
            return
        self._cluster.check_loop()
        self._closed = True
        self._is_open = False
        # A poll in another task must not wait for records that will not come.
        self._fetcher.arrived.set()
        group = self._group
        try:
            if group is not None:
                if group.is_subscribed:
                    await group.leave(is_closing=True, has_failed=has_failed)
                else:
                    await group.offsets.commit_at_last(group.identity)
        finally:
            if group is not None:
                await group.stop()
            await self._fetcher.stop()
            self._cluster.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A record on which the application failed does not count as read.
        await self._close(has_failed=kind is not None)

    def __del__(self) -> None:
        if self._is_open:
            warn_unclosed(self)

    # Offsets.

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """List the partitions of a topic.

        Args:
            topic: The topic's name.

        Returns:
            The topic's partitions.

        Raises:
            RequestRefused: The topic does not exist.
        """
        view = await self._cluster.topic(topic)
        return [TopicPartition(topic, number) for number in view.partitions]

    async def offsets_at(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAt]:
        """Find for each partition the first record at or after a time.

        Args:
            times: A time in milliseconds since 1970 for each partition. -1 means the end, -2 the
                beginning, and -3 the record with the highest timestamp (brokers from Kafka 3.0 on).

        Returns:
            The offset, timestamp and leader epoch for each partition.

        Raises:
            ClientError: The first error of any partition.
        """
        self._check_running()
        check_times(times)
        found = await list_offsets(self._router, times, self.config.isolation)
        offsets = {}
        for partition, answer in found.items():
            if isinstance(answer, ClientError):
                raise answer
            offsets[partition] = answer
        return offsets

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Find the end of each partition: the offset after the last visible record.

        Args:
            partitions: The partitions to ask for.

        Returns:
            The end offset of each partition.

        Raises:
            ClientError: The first error of any partition.
        """
        times = dict.fromkeys(partitions_of(partitions), LATEST_TIMESTAMP)
        found = await self.offsets_at(times)
        return {partition: answer.offset for partition, answer in found.items()}

    # Reading.

    async def poll(
        self, max_wait_ms: float = 1_000, max_records: int = RECORDS_PER_POLL_MAX
    ) -> list[ConsumerRecord[ReadKey, ReadValue]]:
        """Return the next records of any partitions, in order within each partition.

        Args:
            max_wait_ms: How long to wait for records, in milliseconds (default 1000).
            max_records: At most this many records (default 500).

        Returns:
            The records; empty if none arrived in time.

        Raises:
            RequestRefused: A broker refused to serve a partition.
            NoOffset: A position is missing or out of range, and ``offset_reset`` is ``"none"``.
            DeserializationFailed: The first record cannot be deserialized.
            ClientClosed: The consumer is not running.
        """
        records: list[ConsumerRecord[Any, Any]] = []
        max_records = whole("max_records", max_records)

        def take(completed: CompletedFetch) -> bool:
            records.extend(completed.take(max_records - len(records)))
            return len(records) < max_records

        await self._collect(take, max_wait_ms)
        return records if self._reading is None else self._read(self._reading, records)

    def _read(
        self, reading: Reading, records: list[ConsumerRecord]
    ) -> list[ConsumerRecord[ReadKey, ReadValue]]:
        """Deserialize the records up to the first that fails, and move the positions back to it:
        the next poll begins there, so no commit can pass a record that the application did not
        get."""
        read, failure = reading.read(records)
        if failure is not None:
            firsts: dict[TopicPartition, int] = {}
            for record in records[len(read) :]:
                firsts.setdefault(TopicPartition(record.topic, record.partition), record.offset)
            for where, offset in firsts.items():
                self.seek(where, offset)
            if not read:
                raise failure
        try:
            return reading.intercepted(read)
        except BaseException:
            # The application has not seen them.
            self._consumed.rewind()
            raise

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[ReadKey, ReadValue]]:
        while not self._closed:
            for record in self._one_by_one(await self.poll(STEP_WAIT_MS, RECORDS_PER_STEP)):
                yield record

    def _one_by_one(
        self, records: list[ConsumerRecord[ReadKey, ReadValue]]
    ) -> Iterator[ConsumerRecord[ReadKey, ReadValue]]:
        """Iterate over the records until an interruption: the group may have assigned the rest to
        another member, and the next poll knows. Also called outside of the event loop's thread."""
        return iter(self._consumed.returned.iterate(records))

    def parallel(
        self,
        handler: Callable[[ConsumerRecord[ReadKey, ReadValue]], Awaitable[object] | object],
        *,
        concurrency: int = 16,
        ordering: Ordering = "key",
        on_error: OnError = "stop",
        limits: ParallelLimits | None = None,
    ) -> ParallelRun:
        """Handle records with several calls of a handler at once, in order for each key or
        partition.

        The consumer must not be polled during the run. Only handled records are committed. See
        docs/parallel.md.

        Args:
            handler: Called with each record: a coroutine function, or a plain function, which runs
                in a thread.
            concurrency: How many records are handled at once (default 16).
            ordering: ``"key"`` (default) and ``"partition"`` handle records of one key, or of one
                partition, one after the other; ``"none"`` handles them in any order.
            on_error: What follows an exception of the handler: ``"stop"`` (default), ``"skip"``,
                ``"retry"``, a ``Retry`` or a ``DeadLetter``.
            limits: Limits of the run; the defaults of ``ParallelLimits`` if None.

        Returns:
            A ``ParallelRun`` that has not begun: call its ``run``, or await it.

        Raises:
            ValueError: An argument has an invalid value.
            TypeError: ``handler`` is not callable.
        """
        interval_ms = self.config.auto_commit_interval_ms if self.config.auto_commit else None
        return ParallelRun(
            self,
            Committing(self._group, interval_ms),
            RunPlan(handler, concurrency, ordering, on_error, limits or ParallelLimits()),
            self._environment,
        )

    @property
    def _clock(self) -> Clock:
        return self._environment.clock

    async def _collect(self, take: Take, max_wait_ms: float) -> None:
        check_wait("max_wait_ms", max_wait_ms)
        fetcher, group = self._fetcher, self._group
        deadline_ms = self._environment.clock.now_ms() + max_wait_ms
        self._check_running()
        self._begin_poll()
        try:
            while True:
                if self._closed:
                    raise ClientClosed(not_running("consumer", is_closed=True))
                fetcher.arrived.clear()
                if group is not None and group.has_news:
                    await group.change()
                    group.enter_poll()
                elif (group is None or group.may_read) and self._take(take):
                    return
                fetcher.raise_failure()
                if not await self._arrived_by(deadline_ms):
                    return
        finally:
            if group is not None:
                group.exit_poll()

    async def _arrived_by(self, deadline_ms: float) -> bool:
        clock = self._environment.clock
        try:
            async with TimeLimit(clock, deadline_ms - clock.now_ms()):
                await self._fetcher.arrived.wait()
        except TimeoutError:
            return False
        return True

    def _begin_poll(self) -> None:
        """Mark the records that the last poll returned as processed, and commit them if that is
        due."""
        self._consumed.interrupt()
        self._consumed.returned.finish()
        group = self._group
        if group is not None:
            group.commit_if_due()
            group.enter_poll()

    def _take(self, take: Take) -> bool:
        """Offer the waiting fetches until one is refused; return whether anything was taken."""
        fetcher, positions, handed = self._fetcher, self._positions, self._consumed.returned
        kept: list[CompletedFetch] = []
        moved = False
        wants_more = True
        try:
            while wants_more and fetcher.completed:
                completed = fetcher.completed.popleft()
                if not fetcher.is_current(completed):
                    continue
                if positions[completed.partition].is_paused:
                    kept.append(completed)
                    continue
                before = completed.position
                handed.take(completed.partition, before)
                try:
                    wants_more = take(completed)
                except BaseException as error:
                    # Fetch it again from the application's position; the damage may have happened
                    # in transit.
                    positions.seek(completed.partition, completed.position)
                    self._has_moved()
                    if moved and isinstance(error, RequestRefused):
                        break
                    raise
                moved = moved or completed.position > before
                positions.read_to(completed.partition, completed.position)
                if completed.is_done:
                    positions.fetch_done(completed.partition)
                    fetcher.has_room()
                else:
                    kept.append(completed)
        finally:
            # Also after damage: waiting fetches of other partitions are kept nowhere else.
            fetcher.completed.extendleft(reversed(kept))
        if moved:
            # The application now processes the records, without running the event loop.
            fetcher.receive_ahead()
        return moved

    def _check_running(self) -> None:
        if not self._started or self._closed:
            raise ClientClosed(not_running("consumer", is_closed=self._closed))
        self._cluster.check_loop()

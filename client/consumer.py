"""Reading records, of partitions that a group assigns or the application itself.

Who subscribes shares the topics with the other members of the group, and the group keeps the
positions. Who assigns says where to begin, and may keep the positions anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from ottla.client.cluster.cluster import Cluster
from ottla.client.cluster.routing import Router
from ottla.client.fetching.deserialization import Reading, reading
from ottla.client.fetching.fetcher import Fetcher
from ottla.client.fetching.offsets import OffsetAt, check_times, list_offsets
from ottla.client.fetching.positions import LATEST_TIMESTAMP
from ottla.client.group.calls import GroupCalls
from ottla.client.parallel.parallel import Committing, ParallelRun, Plan
from ottla.client.parallel.policy import ParallelLimits
from ottla.client.process.environment import Environment, real_environment
from ottla.client.process.unclosed import warn_unclosed
from ottla.client.records.arguments import check_wait, partitions_of, whole
from ottla.client.records.serializers import ReadKey, ReadValue
from ottla.client.settings.config import ConsumerConfig, parse_addresses
from ottla.client.settings.keywords import ConsumerSettings, configured
from ottla.protocol.ids import TopicPartition
from ottla.wire.deadline import TimeLimit
from ottla.wire.errors import (
    ClientClosed,
    ClientError,
    RequestRefused,
    not_running,
    started_before,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from ottla.client.fetching.batch_reading import Take
    from ottla.client.fetching.batches import ConsumerRecord
    from ottla.client.fetching.chunk import Chunk
    from ottla.client.parallel.policy import OnError
    from ottla.client.parallel.scheduler import Ordering
    from ottla.protocol.ports import Clock

RECORDS_PER_POLL_MAX = 500
# How many records the iterator takes at a time; they are in memory anyway.
RECORDS_PER_STEP = 2_000
STEP_WAIT_MS = 60_000.0


class Consumer(GroupCalls, Generic[ReadKey, ReadValue]):
    """Use it as ``async with Consumer("127.0.0.1:9092") as consumer:``.

    Belongs to one event loop, and one task at a time may poll."""

    # Started and not closed, for ``__del__``, which also comes where ``__init__`` has failed.
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
        self._cluster = Cluster(self._environment, parse_addresses(bootstrap), self.config)
        router = Router(self._cluster)
        super().__init__(router, Fetcher(router, self.config), self.config)
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Reach the cluster. Raises TransportError; a wrong address is BrokerUnreachable."""
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
        """End: what was handed out counts as read, the group is left, then all stops. May be
        called again. Raises what a rebalance listener raises."""
        await self._close(has_failed=False)

    async def _close(self, *, has_failed: bool) -> None:
        if self._closed:
            return
        self._cluster.home.check()
        self._closed = True
        self._is_open = False
        # Whoever polls in another task is not to wait for records that will not come.
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
        # What failed in the application is not read yet.
        await self._close(has_failed=kind is not None)

    def __del__(self) -> None:
        if self._is_open:
            warn_unclosed(self)

    # Offsets.

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The topic's partitions. Raises RequestRefused for an unknown topic."""
        view = await self._cluster.topic(topic)
        return [TopicPartition(topic, number) for number in view.partitions]

    async def offsets_at(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAt]:
        """For each partition the first record at that time (ms since 1970) or later.

        -1 stands for the end, -2 for the beginning, and -3 for the record with the highest
        timestamp, which brokers before Kafka 3.0 do not know. Raises the first ClientError."""
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
        """The offsets after the last visible records."""
        times = dict.fromkeys(partitions_of(partitions), LATEST_TIMESTAMP)
        found = await self.offsets_at(times)
        return {partition: answer.offset for partition, answer in found.items()}

    # Reading.

    async def poll(
        self, max_wait_ms: float = 1_000, max_records: int = RECORDS_PER_POLL_MAX
    ) -> list[ConsumerRecord[ReadKey, ReadValue]]:
        """The next records of any partition, in order within each; empty when none came in time.

        Raises RequestRefused, NoOffset, or whatever has ended the consumer."""
        records: list[ConsumerRecord[Any, Any]] = []
        max_records = whole("max_records", max_records)

        def take(chunk: Chunk) -> bool:
            records.extend(chunk.take(max_records - len(records)))
            return len(records) < max_records

        await self._collect(take, max_wait_ms)
        return records if self._reading is None else self._read(self._reading, records)

    def _read(
        self, reading: Reading, records: list[ConsumerRecord]
    ) -> list[ConsumerRecord[ReadKey, ReadValue]]:
        """The records as the application wants them, up to the first that cannot be read. The
        next poll begins with that one, so no commit can go past it unseen."""
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
            self._handout.rewind()
            raise

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[ReadKey, ReadValue]]:
        while not self._closed:
            for record in self._one_by_one(await self.poll(STEP_WAIT_MS, RECORDS_PER_STEP)):
                yield record

    def _one_by_one(
        self, records: list[ConsumerRecord[ReadKey, ReadValue]]
    ) -> Iterator[ConsumerRecord[ReadKey, ReadValue]]:
        """One after the other, until it is interrupted: what is left may be somebody else's to
        read then, and the next poll knows. Also called outside of the event loop's thread."""
        return iter(self._handout.handed.iterate(records))

    def parallel(
        self,
        handler: Callable[[ConsumerRecord[ReadKey, ReadValue]], Awaitable[object] | object],
        *,
        concurrency: int = 16,
        ordering: Ordering = "key",
        on_error: OnError = "stop",
        limits: ParallelLimits | None = None,
    ) -> ParallelRun:
        """Call the handler, a coroutine function or a plain one (then in threads), for every record
        from here on, for that many at once; those of one key, or of one partition, one after the
        other. ``await`` what is returned; only what is done is committed. See docs/parallel.md."""
        interval_ms = self.config.auto_commit_interval_ms if self.config.auto_commit else None
        return ParallelRun(
            self,
            Committing(self._group, interval_ms),
            Plan(handler, concurrency, ordering, on_error, limits or ParallelLimits()),
            self._environment,
        )

    @property
    def _clock(self) -> Clock:
        return self._environment.clock

    async def _collect(self, take: Take, max_wait_ms: float) -> None:
        check_wait("max_wait_ms", max_wait_ms)
        fetcher, group = self._fetcher, self._group
        deadline_ms = self._environment.clock.now_ms() + max_wait_ms
        self._begin_poll()
        try:
            while True:
                self._check_running()
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
        """The application has finished with all that it was given."""
        self._handout.interrupt()
        self._handout.handed.finish()
        group = self._group
        if group is not None:
            group.offsets.commit_if_due(self._environment.clock.now_ms(), group.identity)
            group.enter_poll()

    def _take(self, take: Take) -> bool:
        """Offer the waiting chunks until one is refused; return whether anything was taken."""
        fetcher, positions, handed = self._fetcher, self._positions, self._handout.handed
        kept: list[Chunk] = []
        moved = False
        wants_more = True
        try:
            while wants_more and fetcher.chunks:
                chunk = fetcher.chunks.popleft()
                if not fetcher.is_current(chunk):
                    continue
                if positions[chunk.partition].is_paused:
                    kept.append(chunk)
                    continue
                before = chunk.position
                handed.take(chunk.partition, before)
                try:
                    wants_more = take(chunk)
                except BaseException as error:
                    # Fetch it again from where the application is; the damage may be the way's.
                    positions.seek(chunk.partition, chunk.position)
                    self._has_moved()
                    if moved and isinstance(error, RequestRefused):
                        break
                    raise
                moved = moved or chunk.position > before
                positions.read_to(chunk.partition, chunk.position)
                if chunk.is_done:
                    positions.chunk_done(chunk.partition)
                    fetcher.has_room()
                else:
                    kept.append(chunk)
        finally:
            # Also after damage: what waits of other partitions is nowhere else.
            fetcher.chunks.extendleft(reversed(kept))
        if moved:
            # The application works on it now, without us.
            fetcher.receive_ahead()
        return moved

    def _check_running(self) -> None:
        if not self._started or self._closed:
            raise ClientClosed(not_running("consumer", is_closed=self._closed))
        self._cluster.home.check()

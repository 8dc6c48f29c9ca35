"""Reading records from assigned partitions.

The application assigns partitions, says where to begin, and polls; there is no group. Positions
are the application's own to keep: a new consumer continues from any offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.client.batch_reading import BatchReading
from ottla.client.cluster import Cluster
from ottla.client.config import ConsumerConfig, Isolation, parse_addresses
from ottla.client.deadline import TimeLimit
from ottla.client.environment import Environment, real_environment
from ottla.client.errors import ClientClosed, ClientError, RequestRefused
from ottla.client.fetcher import Fetcher
from ottla.client.groups import GroupAdmin
from ottla.client.offsets import OffsetAt, list_offsets
from ottla.client.routing import Router
from ottla.client.state.positions import LATEST_TIMESTAMP
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from types import TracebackType

    from ottla.client.batch_reading import Take
    from ottla.client.batches import ConsumerRecord
    from ottla.client.chunk import Chunk
    from ottla.client.group_requests import Committed

RECORDS_PER_POLL_MAX = 500
# How many records the iterator takes at a time; they are in memory anyway.
RECORDS_PER_STEP = 2_000
STEP_WAIT_MS = 60_000.0


class Consumer(BatchReading):
    """Use it as ``async with Consumer("127.0.0.1:9092") as consumer:``.

    Belongs to one event loop, and one task at a time may poll."""

    def __init__(
        self,
        bootstrap: str,
        config: ConsumerConfig | None = None,
        environment: Environment | None = None,
    ) -> None:
        self.config = config or ConsumerConfig()
        self._environment = environment or real_environment()
        self._cluster = Cluster(self._environment, parse_addresses(bootstrap), self.config)
        self._router = Router(self._cluster)
        super().__init__(Fetcher(self._router, self.config), self.config.isolation)
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Reach the cluster. Raises TransportError; a wrong address is BrokerUnreachable."""
        assert not self._started, "started twice"
        try:
            await self._cluster.refresh()
        except BaseException:
            self._cluster.close()
            raise
        self._started = True
        self._fetcher.start()

    async def close(self) -> None:
        """End. May be called again."""
        self._closed = True
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
        await self.close()

    # Offsets.

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The topic's partitions. Raises RequestRefused for an unknown topic."""
        view = await self._cluster.topic(topic)
        return [TopicPartition(topic, number) for number in view.partitions]

    async def offsets_at(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAt]:
        """For each partition the first record at that time (ms since 1970) or later.

        -1 stands for the end and -2 for the beginning. Raises the first ClientError."""
        found = await list_offsets(self._router, times, self.config.isolation)
        offsets = {}
        for partition, answer in found.items():
            if isinstance(answer, ClientError):
                raise answer
            offsets[partition] = answer
        return offsets

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last visible records."""
        found = await self.offsets_at(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {partition: answer.offset for partition, answer in found.items()}

    async def committed(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """Where a group stands, to go on from there; partitions without a position are left out.

        With read_committed it waits for transactions that are about to move a position (KIP-447):
        what they have read would be read again otherwise. Raises RequestRefused."""
        is_strict = self.config.isolation is Isolation.READ_COMMITTED
        groups = GroupAdmin(self._router)
        return await groups.offsets(group_id, partitions, require_stable=is_strict)

    # Reading.

    async def poll(
        self, max_wait_ms: float = 1_000, max_records: int = RECORDS_PER_POLL_MAX
    ) -> list[ConsumerRecord]:
        """The next records of any partition, in order within each; empty when none came in time.

        Raises RequestRefused, NoOffset, or whatever has ended the consumer."""
        records: list[ConsumerRecord] = []

        def take(chunk: Chunk) -> bool:
            records.extend(chunk.take(max_records - len(records)))
            return len(records) < max_records

        await self._collect(take, max_wait_ms)
        return records

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while not self._closed:
            for record in await self.poll(STEP_WAIT_MS, RECORDS_PER_STEP):
                yield record

    async def _collect(self, take: Take, max_wait_ms: float) -> None:
        fetcher = self._fetcher
        try:
            async with TimeLimit(self._environment.clock, max_wait_ms):
                while True:
                    self._check_running()
                    fetcher.arrived.clear()
                    if self._take(take):
                        return
                    fetcher.raise_failure()
                    await fetcher.arrived.wait()
        except TimeoutError:
            return

    def _take(self, take: Take) -> bool:
        """Offer the waiting chunks until one is refused; return whether anything was taken."""
        fetcher, positions = self._fetcher, self._positions
        kept: list[Chunk] = []
        moved = False
        wants_more = True
        while wants_more and fetcher.chunks:
            chunk = fetcher.chunks.popleft()
            if not fetcher.is_current(chunk):
                continue
            if positions[chunk.partition].is_paused:
                kept.append(chunk)
                continue
            before = chunk.position
            try:
                wants_more = take(chunk)
            except RequestRefused:
                # Fetch it again from where the application is; the damage may be the way's.
                positions.seek(chunk.partition, chunk.position)
                self._has_moved()
                if moved:
                    break
                raise
            moved = moved or chunk.position > before
            positions.read_to(chunk.partition, chunk.position)
            if chunk.is_done:
                positions.chunk_done(chunk.partition)
                fetcher.wake()
            else:
                kept.append(chunk)
        fetcher.chunks.extendleft(reversed(kept))
        return moved

    def _check_running(self) -> None:
        if not self._started or self._closed:
            raise ClientClosed("the consumer is " + ("closed" if self._closed else "not started"))

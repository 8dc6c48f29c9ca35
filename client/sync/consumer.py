"""Blocking Consumer: ``client/consumer.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from ottla.client.consumer import RECORDS_PER_POLL_MAX, RECORDS_PER_STEP, STEP_WAIT_MS
from ottla.client.consumer import Consumer as AsyncConsumer
from ottla.client.fetching.batch_reading import RECORDS_PER_TABLE
from ottla.client.records.serializers import ReadKey, ReadValue
from ottla.client.sync.face import Face
from ottla.client.sync.listener import for_caller
from ottla.client.sync.parallel import ParallelRun

if TYPE_CHECKING:
    import re
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    import pyarrow as pa

    from ottla.client.fetching.assignment import Assignment as AsyncAssignment
    from ottla.client.fetching.batch_reading import BatchReading as AsyncBatchReading
    from ottla.client.fetching.batches import ConsumerRecord, FetchedBatch
    from ottla.client.fetching.offsets import OffsetAt
    from ottla.client.group.calls import GroupCalls as AsyncGroupCalls
    from ottla.client.group.rebalance_listener import RebalanceListener
    from ottla.client.parallel.policy import OnError, ParallelLimits
    from ottla.client.parallel.scheduler import Ordering
    from ottla.client.process.environment import Environment
    from ottla.client.records.committed import Committed, ConsumerGroupMetadata
    from ottla.client.settings.config import ConsumerConfig
    from ottla.client.settings.keywords import ConsumerSettings
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.columns import Columns


class Assignment(Face):
    """The part of the client that is in client.fetching.assignment."""

    @property
    def _inner(self) -> AsyncAssignment:
        raise NotImplementedError

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these from now on; those assigned already keep their position."""
        self._call(lambda: self._inner.assign(partitions))

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return self._call(lambda: self._inner.assignment)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at that offset."""
        self._call(lambda: self._inner.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record there is; all assigned partitions if none is named."""
        self._call(lambda: self._inner.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record there is when this takes effect."""
        self._call(lambda: self._inner.seek_to_end(*partitions))

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition) -> None:
        """Continue at the first record with that timestamp (ms since 1970) or a later one; at the
        end if there is none."""
        self._call(lambda: self._inner.seek_to_time(timestamp, *partitions))

    def pause(self, *partitions: TopicPartition) -> None:
        """Do not return records of these until ``resume``; nothing is lost."""
        self._call(lambda: self._inner.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return their records again."""
        self._call(lambda: self._inner.resume(*partitions))

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to be returned; None while it is being looked up."""
        return self._call(lambda: self._inner.position(partition))

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets are between the position and the end, as last heard of."""
        return self._call(lambda: self._inner.lag(partition))

    def is_dry_before(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the log goes on to that offset, but has no record before it any more that the
        position has not passed: compaction has removed them."""
        return self._call(lambda: self._inner.is_dry_before(partition, offset))


class BatchReading(Assignment):
    """The part of the client that is in client.fetching.batch_reading."""

    @property
    def _inner(self) -> AsyncBatchReading:
        raise NotImplementedError

    def poll_batches(self, max_wait_ms: float = 1000) -> list[FetchedBatch]:
        """All batches that are ready, undecoded, in order within each partition; empty when none
        came in time."""
        return self._take(self._inner.poll_batches(max_wait_ms))

    def batches(self) -> Iterator[FetchedBatch]:
        """Batch after batch, for ever."""
        return self._iterate(lambda: self._inner.batches())

    def poll_columns(
        self, max_wait_ms: float = 1000, max_records: int = RECORDS_PER_TABLE
    ) -> list[tuple[TopicPartition, Columns]]:
        """About that many of the next records as columns, one for each batch; empty when none came
        in time."""
        return self._take(self._inner.poll_columns(max_wait_ms, max_records))

    def arrow(
        self, max_wait_ms: float | None = None, max_records: int = RECORDS_PER_TABLE
    ) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of ``arrow.SCHEMA``, each of one partition and of at most that many
        records."""
        return self._iterate(lambda: self._inner.arrow(max_wait_ms, max_records))


class GroupCalls(BatchReading):
    """The part of the client that is in client.group.calls."""

    @property
    def _inner(self) -> AsyncGroupCalls:
        raise NotImplementedError

    def subscribe(
        self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Read these topics together with the other members of the group, instead of what was
        subscribed before."""
        self._run(self._inner.subscribe(topics, for_caller(listener)))

    def unsubscribe(self) -> None:
        """Leave the group and read nothing any more."""
        self._run(self._inner.unsubscribe())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these from now on; those assigned already keep their position."""
        self._call(lambda: self._inner.assign(partitions))

    def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        """Store where the group goes on: after all that was handed out, or at these offsets, which
        are those of the next records to read."""
        self._run(self._inner.commit(offsets))

    def committed(
        self, group_id: str | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """Where this group stands, or another; partitions without a position are left out."""
        return self._run(self._inner.committed(group_id, partitions))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For ``send_offsets_to_transaction``: who we are in the group, so that a member that has
        lost its partitions is refused (KIP-447)."""
        return self._call(lambda: self._inner.group_metadata())

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to be returned; None while it is being looked up."""
        return self._call(lambda: self._inner.position(partition))


class Consumer(GroupCalls, Generic[ReadKey, ReadValue]):
    """Use it as ``with ottla.sync.Consumer("127.0.0.1:9092") as consumer:``.

    It is ``ottla.Consumer`` for programs that block, and may be used by several threads.
    """

    def __init__(
        self,
        bootstrap: str,
        config: ConsumerConfig | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ConsumerSettings[ReadKey, ReadValue]],
    ) -> None:
        super().__init__()
        self._client = self._call(
            lambda: AsyncConsumer[ReadKey, ReadValue](bootstrap, config, environment, **settings)
        )

    @property
    def config(self) -> ConsumerConfig:
        """The settings."""
        return self._inner.config

    @property
    def _inner(self) -> AsyncConsumer[ReadKey, ReadValue]:
        return self._client

    def __enter__(self) -> Self:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, traceback))

    def __iter__(self) -> Iterator[ConsumerRecord[ReadKey, ReadValue]]:
        while not self._inner._closed:
            records = self._take(self._inner.poll(STEP_WAIT_MS, RECORDS_PER_STEP))
            yield from self._inner._one_by_one(records)

    def _give_back(self) -> None:
        self._inner._handout.rewind()

    def start(self) -> None:
        """Reach the cluster."""
        self._run(self._inner.start())

    def close(self) -> None:
        """End: what was handed out counts as read, the group is left, then all stops."""
        self._run(self._inner.close())

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The topic's partitions."""
        return self._run(self._inner.partitions_of(topic))

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        """For each partition the first record at that time (ms since 1970) or later."""
        return self._run(self._inner.offsets_at(times))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets after the last visible records."""
        return self._run(self._inner.end_offsets(partitions))

    def poll(
        self, max_wait_ms: float = 1000, max_records: int = RECORDS_PER_POLL_MAX
    ) -> list[ConsumerRecord[ReadKey, ReadValue]]:
        """The next records of any partition, in order within each; empty when none came in time."""
        return self._take(self._inner.poll(max_wait_ms, max_records))

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
        other."""
        return ParallelRun(
            self._call(
                lambda: self._inner.parallel(
                    handler,
                    concurrency=concurrency,
                    ordering=ordering,
                    on_error=on_error,
                    limits=limits,
                )
            ),
            self._loop,
        )

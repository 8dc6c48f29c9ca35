"""Blocking Consumer: ``client/consumer.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from ottla.client.consumer import RECORDS_PER_POLL_MAX, RECORDS_PER_STEP, STEP_WAIT_MS
from ottla.client.consumer import Consumer as AsyncConsumer
from ottla.client.fetching.batch_reading import RECORDS_PER_TABLE
from ottla.client.records.serializers import ReadKey, ReadValue
from ottla.client.settings.config import ConsumerConfig
from ottla.client.settings.listing import lists_settings
from ottla.client.sync.face import Face
from ottla.client.sync.listener import for_caller
from ottla.client.sync.parallel import ParallelRun

if TYPE_CHECKING:
    import re
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    import pyarrow as pa

    from ottla.client.fetching.assignment import AssignmentCalls as AsyncAssignmentCalls
    from ottla.client.fetching.batch_reading import BatchReading as AsyncBatchReading
    from ottla.client.fetching.batches import ConsumerRecord, FetchedBatch
    from ottla.client.fetching.offsets import OffsetAt
    from ottla.client.group.calls import GroupCalls as AsyncGroupCalls
    from ottla.client.group.rebalance_listener import RebalanceListener
    from ottla.client.parallel.policy import OnError, ParallelLimits
    from ottla.client.parallel.scheduler import Ordering
    from ottla.client.process.environment import Environment
    from ottla.client.records.committed import Committed, ConsumerGroupMetadata
    from ottla.client.settings.keywords import ConsumerSettings
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.columns import Columns


class AssignmentCalls(Face):
    """The calls of ``client.fetching.assignment``."""

    @property
    def _inner(self) -> AsyncAssignmentCalls:
        raise NotImplementedError

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; partitions that are assigned already keep their
        position.

        Without a ``seek`` a partition begins where ``offset_reset`` says.

        Args:
            partitions: All partitions to read; none to stop.
        """
        self._call(lambda: self._inner.assign(partitions))

    @property
    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return self._call(lambda: self._inner.assignment)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset.

        Args:
            partition: An assigned partition.
            offset: The offset of the next record to read.

        Raises:
            ValueError: The partition is not assigned.
        """
        self._call(lambda: self._inner.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record of the log.

        Args:
            partitions: Assigned partitions; all of them if none is given.

        Raises:
            ValueError: A partition is not assigned.
        """
        self._call(lambda: self._inner.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record, as of the time when the broker is asked.

        Args:
            partitions: Assigned partitions; all of them if none is given.

        Raises:
            ValueError: A partition is not assigned.
        """
        self._call(lambda: self._inner.seek_to_end(*partitions))

    def seek_to_time(self, timestamp: int, *partitions: TopicPartition) -> None:
        """Continue at the first record at or after a time, or at the end if there is none.

        Args:
            timestamp: The time, in milliseconds since 1970.
            partitions: Assigned partitions; all of them if none is given.

        Raises:
            ValueError: A partition is not assigned.
        """
        self._call(lambda: self._inner.seek_to_time(timestamp, *partitions))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until ``resume``. No record is lost.

        Args:
            partitions: Assigned partitions.

        Raises:
            ValueError: A partition is not assigned.
        """
        self._call(lambda: self._inner.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of paused partitions again.

        Args:
            partitions: Assigned partitions.

        Raises:
            ValueError: A partition is not assigned.
        """
        self._call(lambda: self._inner.resume(*partitions))

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record that a poll returns; None while it is looked up.

        Args:
            partition: An assigned partition.

        Raises:
            ValueError: The partition is not assigned.
        """
        return self._call(lambda: self._inner.position(partition))

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end of the partition.

        Args:
            partition: An assigned partition.

        Returns:
            The lag as of the last fetch response; None while it is unknown.

        Raises:
            ValueError: The partition is not assigned.
        """
        return self._call(lambda: self._inner.lag(partition))

    def is_dry_before(self, partition: TopicPartition, offset: int) -> bool:
        """Check whether no records are left between the position and an offset.

        Compaction can remove the records before an offset that the log has reached.

        Args:
            partition: An assigned partition.
            offset: The offset to reach.

        Returns:
            True if the log reaches ``offset`` and has no unread record before it.

        Raises:
            ValueError: The partition is not assigned.
        """
        return self._call(lambda: self._inner.is_dry_before(partition, offset))


class BatchReading(AssignmentCalls):
    """The calls of ``client.fetching.batch_reading``."""

    @property
    def _inner(self) -> AsyncBatchReading:
        raise NotImplementedError

    def poll_batches(self, max_wait_ms: float = 1000) -> list[FetchedBatch]:
        """Return all batches that have arrived, undecoded, in order within each partition.

        A damaged batch raises when it is opened, not here.

        Args:
            max_wait_ms: How long to wait for a batch, in milliseconds (default 1000).

        Returns:
            The batches; empty if none arrived in time.

        Raises:
            RequestRefused: As ``poll``.
            NoOffset: As ``poll``.
        """
        return self._take(self._inner.poll_batches(max_wait_ms))

    def batches(self) -> Iterator[FetchedBatch]:
        """Iterate over batches without end. A commit covers the batches that were returned.

        It raises what ``poll_batches`` raises."""
        return self._iterate(lambda: self._inner.batches())

    def poll_columns(
        self, max_wait_ms: float = 1000, max_records: int = RECORDS_PER_TABLE
    ) -> list[tuple[TopicPartition, Columns]]:
        """Return the next records as columns, one ``Columns`` for each batch.

        Args:
            max_wait_ms: How long to wait for records, in milliseconds (default 1000).
            max_records: About how many records to return (default 65536).

        Returns:
            Pairs of a partition and its columns; empty if none arrived in time.

        Raises:
            RequestRefused: As ``poll``.
            NoOffset: As ``poll``.
        """
        return self._take(self._inner.poll_columns(max_wait_ms, max_records))

    def arrow(
        self, max_wait_ms: float | None = None, max_records: int = RECORDS_PER_TABLE
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over Arrow record batches, each with records of one partition.

        A commit covers the batches that were returned. The schema is ``arrow.SCHEMA``.

        Args:
            max_wait_ms: The iteration ends when no record has arrived for this time, in
                milliseconds; never if None (default).
            max_records: At most this many records in a batch (default 65536).

        Raises:
            RequestRefused: As ``poll``.
            NoOffset: As ``poll``.
            ImportError: pyarrow is missing (the extra ``arrow`` brings it).
        """
        return self._iterate(lambda: self._inner.arrow(max_wait_ms, max_records))


class GroupCalls(BatchReading):
    """The calls of ``client.group.calls``."""

    @property
    def _inner(self) -> AsyncGroupCalls:
        raise NotImplementedError

    def subscribe(
        self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Read topics together with the other members of the group, instead of the previous topics.

        Returns at once; the group assigns partitions while the application polls.

        Args:
            topics: Names of topics, or a compiled pattern: all topics whose names begin with a
                match, including topics that are created later.
            listener: Called when partitions are assigned, revoked or lost; None by default.

        Raises:
            ValueError: There is no ``group_id``, or partitions were assigned with ``assign``.
            TypeError: ``listener`` is no RebalanceListener.
        """
        self._run(self._inner.subscribe(topics, for_caller(listener)))

    def unsubscribe(self) -> None:
        """Leave the group and stop reading. Returned records count as processed."""
        self._run(self._inner.unsubscribe())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; partitions that are assigned already keep their
        position.

        Without a ``seek`` a partition begins at the group's committed position, or where
        ``offset_reset`` says if there is none.

        Args:
            partitions: All partitions to read; none to stop.

        Raises:
            ValueError: The consumer is subscribed: the group assigns its partitions.
        """
        self._call(lambda: self._inner.assign(partitions))

    def commit(self, offsets: Mapping[TopicPartition, int | Committed] | None = None) -> None:
        """Store the group's positions.

        Args:
            offsets: For each partition the offset of the next record to read; None (default) for
                the positions after all records that were returned.

        Raises:
            CommitFailed: Another member has the partitions now.
            RequestRefused: The coordinator refused.
            TransportError: The coordinator did not answer.
        """
        self._run(self._inner.commit(offsets))

    def committed(
        self, group_id: str | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """Return the committed positions of this group or of another one.

        It waits for open transactions that would move a position (KIP-447): without that, a
        consumer would read again what the transaction has read.

        Args:
            group_id: The group's name; None (default) for the consumer's own group.
            partitions: The partitions to ask for; None (default) for all.

        Returns:
            The committed position of each partition that has one.

        Raises:
            RequestRefused: The coordinator refused.
        """
        return self._run(self._inner.committed(group_id, partitions))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's identity in its group, for ``send_offsets_to_transaction``: with it
        the coordinator refuses a member that has lost its partitions (KIP-447)."""
        return self._call(lambda: self._inner.group_metadata())

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record that a poll returns; None while it is looked up.

        Args:
            partition: An assigned partition.

        Raises:
            ValueError: The partition is not assigned.
        """
        return self._call(lambda: self._inner.position(partition))


@lists_settings(ConsumerConfig)
class Consumer(GroupCalls, Generic[ReadKey, ReadValue]):
    """``ottla.Consumer`` for blocking code; several threads may use it.

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
        with ottla.sync.Consumer("127.0.0.1:9092", group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            for record in consumer:
                print(record.offset, record.value)
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
        self._inner._consumed.rewind()

    def start(self) -> None:
        """Connect to the cluster and start fetching. ``with`` calls it.

        Raises:
            TransportError: No broker answered; BrokerUnreachable for a wrong address.
            ClientClosed: The consumer was started before.
        """
        self._run(self._inner.start())

    def close(self) -> None:
        """End the consumer: commit what was returned, leave the group, close the connections.

        A second call does nothing. It raises what a rebalance listener raises."""
        self._run(self._inner.close())

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """List the partitions of a topic.

        Args:
            topic: The topic's name.

        Returns:
            The topic's partitions.

        Raises:
            RequestRefused: The topic does not exist.
        """
        return self._run(self._inner.partitions_of(topic))

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        """Find for each partition the first record at or after a time.

        Args:
            times: A time in milliseconds since 1970 for each partition. -1 means the end, -2 the
                beginning, and -3 the record with the highest timestamp (brokers from Kafka 3.0 on).

        Returns:
            The offset, timestamp and leader epoch for each partition.

        Raises:
            ClientError: The first error of any partition.
        """
        return self._run(self._inner.offsets_at(times))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Find the end of each partition: the offset after the last visible record.

        Args:
            partitions: The partitions to ask for.

        Returns:
            The end offset of each partition.

        Raises:
            ClientError: The first error of any partition.
        """
        return self._run(self._inner.end_offsets(partitions))

    def poll(
        self, max_wait_ms: float = 1000, max_records: int = RECORDS_PER_POLL_MAX
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

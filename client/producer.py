"""Sends records.

``Producer.send`` stores a record in memory and returns at once unless memory is full; the sender
sends batches when they are full or their linger time is over. There is one future per batch, not
per record, because a future costs more than a record. The producer is idempotent by default: no
retry stores a record twice or out of order.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Generic, Self, Unpack

from ottla.client.cluster.cluster import ClusterClient
from ottla.client.process.environment import Environment, real_environment
from ottla.client.process.errors import TransactionMisuse, not_running, started_before
from ottla.client.process.unclosed import warn_unclosed
from ottla.client.records.arguments import whole
from ottla.client.records.delivery import BatchDelivered, Delivery
from ottla.client.records.interceptors import ProducerRecord
from ottla.client.records.partitioner import StickyPartitioner, partition_for_key
from ottla.client.records.partitioners import Unplaced, partitioner
from ottla.client.records.producer_record import Headers, Item, item_size_bytes
from ottla.client.records.record_checks import (
    as_bytes,
    checked_headers,
    checked_timestamp,
    too_large,
)
from ottla.client.records.serializers import SendKey, SendValue
from ottla.client.sending.bulk import BulkSending
from ottla.client.sending.preparation import preparation
from ottla.client.sending.sender import Sender
from ottla.client.sending.transaction_calls import TransactionCalls
from ottla.client.settings.config import ProducerConfig, parse_addresses
from ottla.client.settings.keywords import configured
from ottla.client.settings.listing import lists_settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.compression import compress
from ottla.wire.errors import ClientClosed, ClientError, RequestRefused

if TYPE_CHECKING:
    from types import TracebackType

    from ottla.client.cluster.metadata import TopicView
    from ottla.client.sending.batch import Batch
    from ottla.client.sending.transactions import ProducerTransactions
    from ottla.client.settings.keywords import ProducerSettings
    from ottla.protocol.ports import Clock

# Each entry may keep one batch alive after it was delivered.
FILLING_MAX = 64


@lists_settings(ProducerConfig)
class Producer(TransactionCalls, BulkSending, Generic[SendKey, SendValue]):
    """Sends records to topics, in batches, from one event loop.

    Leaving the ``async with`` block delivers the records that are in memory and aborts an open
    transaction. Records hold bytes unless the producer has serializers.

    Args:
        bootstrap: Addresses of some brokers, as ``"host:port,host:port"``; the port defaults to
            9092.
        config: Settings as an object; the defaults of ``ProducerConfig`` if None.
        environment: Clock, network and random source; the real ones if None. For simulations.
        settings: Single settings, which override those of ``config``.

    Raises:
        ValueError: A setting has an invalid value, or settings contradict each other.
        TypeError: A setting is unknown or has the wrong type.
        ImportError: The library of the chosen compression is not installed.

    Example:
        async with ottla.Producer("127.0.0.1:9092", linger_ms=20) as producer:
            delivery = await producer.send("orders", b"value", key=b"key")
            delivered = await delivery
    """

    # Started and not closed, for ``__del__``, which also runs if ``__init__`` has failed.
    _is_open = False

    def __init__(
        self,
        bootstrap: str,
        config: ProducerConfig | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ProducerSettings[SendKey, SendValue]],
    ) -> None:
        self.config = configured(config or ProducerConfig(), settings)
        # A codec whose library is missing fails here and not with the first batch.
        compress(self.config.codec, b"")
        self._environment = environment or real_environment()
        self._bootstrap = parse_addresses(bootstrap)
        self._cluster: ClusterClient | None = None
        self._sender: Sender | None = None
        below = self._environment.random.child("producer").below
        self._partitioner = StickyPartitioner(below)
        self._partitioner_given = partitioner(self.config.partitioner, below)
        self._preparation = preparation(self.config)
        self._wall_ms = self._environment.clock.wall_ms
        # The open batch that records without a key go into, and its future, for each topic.
        self._filling: dict[str, tuple[Batch, asyncio.Future[BatchDelivered]]] = {}
        self._is_plain = (
            self._partitioner_given is None
            and self.config.batch_bytes <= self.config.request_bytes_max
        )
        self._partitions: dict[str, list[TopicPartition]] = {}
        self._topics: dict[str, TopicView] = {}
        self._closed = False

    async def start(self) -> None:
        """Connect to the cluster and start the sender. ``async with`` calls it.

        Raises:
            TransportError: No broker answered; BrokerUnreachable for a wrong address.
            ClientClosed: The producer was started before.
        """
        if self._closed or self._cluster is not None:
            raise ClientClosed(started_before("producer"))
        cluster = ClusterClient(self._environment, self._bootstrap, self.config)
        try:
            await cluster.refresh()
        except BaseException:
            cluster.close()
            raise
        self._cluster = cluster
        self._topics = cluster.metadata.topics
        self._sender = Sender(cluster, self.config)
        self._sender.start()
        self._is_open = True

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(deliver=kind is None)

    async def close(self, *, deliver: bool = True) -> None:
        """End the producer and close its connections. A second call does nothing.

        Args:
            deliver: Deliver the records in memory first (default); False drops them.
        """
        if self._closed:
            return
        if self._cluster is not None:
            self._cluster.check_loop()
        self._closed = True
        self._is_open = False
        try:
            if self._sender is not None and self._sender.transactions is not None:
                await self._sender.transactions.close()
            elif deliver and self._sender is not None:
                await self._flush(self._sender)
        finally:
            if self._sender is not None:
                await self._sender.stop()
            if self._cluster is not None:
                self._cluster.close()

    def __del__(self) -> None:
        if self._is_open:
            warn_unclosed(self)

    async def flush(self) -> None:
        """Wait until every record sent so far is delivered or has failed.

        It raises nothing for a failed record: the record's own ``Delivery`` raises."""
        await self._flush(self._running())

    async def _flush(self, sender: Sender) -> None:
        sender.accumulator.flushing += 1
        sender.wake()
        try:
            pending = list(sender.futures.values())
            if pending:
                await asyncio.wait(pending)
        finally:
            sender.accumulator.flushing -= 1

    async def partition_count(self, topic: str) -> int:
        """Count the partitions of a topic, from metadata no older than ``metadata_max_age_ms``.

        Args:
            topic: The topic's name.

        Returns:
            The number of partitions.

        Raises:
            RequestRefused: The topic does not exist.
        """
        self._running()
        view = await self._topic(topic)
        if self._cluster is not None and self._cluster.is_stale:
            # While nothing is sent, no other call refreshes the metadata.
            view = await self._grown(view)
        return len(view.partitions)

    async def partitions_of(self, topic: str) -> int:
        """Deprecated: call ``partition_count``; a consumer's ``partitions_of`` returns a list.

        Args:
            topic: The topic's name.

        Returns:
            The number of partitions.

        Raises:
            RequestRefused: The topic does not exist.
        """
        warnings.warn(
            "Producer.partitions_of is called partition_count now",
            DeprecationWarning,
            stacklevel=2,
        )
        return await self.partition_count(topic)

    async def send(
        self,
        topic: str,
        value: SendValue | None = None,
        key: SendKey | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Take one record; wait only for the topic's metadata and while memory is full.

        Args:
            topic: The topic's name.
            value: The value; None (default) is a tombstone in compacted topics.
            key: The key, which chooses the partition; None (default) for no key.
            partition: The partition's number; None (default) leaves the choice to the partitioner.
            timestamp: Milliseconds since 1970; None (default) for now.
            headers: Pairs of a name and bytes; none by default.

        Returns:
            The record's ``Delivery``, which reports the acknowledgement.

        Raises:
            RequestRefused: The topic or partition does not exist, or the record is larger than
                ``request_bytes_max``.
            ClientClosed: The producer is not running.
        """
        sender = self._sender
        if sender is None or self._closed or sender.failure is not None:
            sender = self._running()
        serial = -1 if sender.transactions is None else sender.transactions.enter()
        if self._preparation is not None:
            topic, value, key, partition, timestamp, headers = self._preparation.prepared(
                ProducerRecord(topic, value, key, partition, timestamp, headers)
            )
        timestamp = self._wall_ms() if timestamp is None else checked_timestamp(timestamp)
        if key is None and partition is None and type(value) is bytes and not headers:
            # HOT: most records go into the same batch as the previous one.
            filling = self._filling.get(topic)
            if filling is not None:
                found, future = filling
                if sender.accumulator.append_value(found, timestamp, value):
                    return Delivery(future, found.partition, len(found.items) - 1, timestamp)
        item = (
            timestamp,
            key if type(key) is bytes else as_bytes(key),
            value if type(value) is bytes else as_bytes(value),
            checked_headers(headers) if headers else (),
        )
        size_bytes = item_size_bytes(item)
        if size_bytes > self.config.request_bytes_max:
            raise too_large(topic, size_bytes, self.config.request_bytes_max)
        view = self._topics.get(topic)
        if view is None or not view.partitions:
            view = await self._topic(topic)
            if sender.transactions is not None:
                sender.transactions.check_open(serial)
        deciding_key = item[1]
        if partition is not None and type(partition) is not int:
            partition = whole("a partition's number", partition)
        if partition is not None and partition >= len(view.partitions):
            view = await self._grown(view)
            if sender.transactions is not None:
                sender.transactions.check_open(serial)
        if self._partitioner_given is not None and partition is None:
            partition = self._partitioner_given(
                Unplaced(topic, deciding_key, item[2], len(view.partitions), view.available)
            )
            deciding_key = None
        target = self._choose(view, partition, deciding_key)
        # An open batch belongs to the open transaction, which has its partition already.
        batch = sender.accumulator.append_open(target, item, size_bytes)
        if batch is None:
            is_free = partition is None and deciding_key is None
            batch = await self._begin_batch(view, target, (item, size_bytes), is_free, serial)
        future = sender.future_of(batch)
        if partition is None and deciding_key is None and self._is_plain:
            if len(self._filling) >= FILLING_MAX:
                self._filling.clear()
            self._filling[topic] = batch, future
        return Delivery(future, batch.partition, len(batch.items) - 1, timestamp)

    async def _begin_batch(
        self,
        view: TopicView,
        target: TopicPartition,
        sized: tuple[Item, int],
        is_free: bool,
        serial: int,
    ) -> Batch:
        """Take a record that does not fit into an open batch.

        A record without a fixed partition goes to another one, so that all partitions get their
        share, a batch at a time."""
        sender = self._running()
        item, size_bytes = sized
        now_ms = self._environment.clock.now_ms()
        if sender.room_lock.locked() or not sender.accumulator.has_room(size_bytes):
            await self._have_room(sender, size_bytes)
            now_ms = self._environment.clock.now_ms()
        if is_free:
            target = self._move_on(view, target)
        if sender.transactions is not None:
            sender.transactions.admit(target, serial)
        batch = sender.accumulator.append(target, item, size_bytes, now_ms)
        assert batch is not None
        sender.wake()
        return batch

    @property
    def _clock(self) -> Clock:
        return self._environment.clock

    def _transactions(self) -> ProducerTransactions:
        transactions = self._running().transactions
        if transactions is None:
            raise TransactionMisuse("the producer has no transactional_id")
        return transactions

    def _running(self) -> Sender:
        sender = self._sender
        if sender is None or self._closed:
            raise ClientClosed(not_running("producer", is_closed=self._closed))
        if sender.failure is not None:
            raise ClientClosed(f"the producer has stopped: {sender.failure}")
        assert self._cluster is not None
        self._cluster.check_loop()
        return sender

    async def _topic(self, name: str) -> TopicView:
        assert self._cluster is not None
        view = self._topics.get(name)
        if view is None or not view.partitions:
            view = await self._cluster.topic(name)
        return view

    async def _grown(self, view: TopicView) -> TopicView:
        """Return the topic after a refresh: partitions may have been added."""
        assert self._cluster is not None
        try:
            self._cluster.mark_stale()
            await self._cluster.refresh()
        except ClientError:
            return view
        return self._topics.get(view.name, view)

    def _choose(self, view: TopicView, partition: int | None, key: bytes | None) -> TopicPartition:
        count = len(view.partitions)
        if partition is None:
            if key is not None:
                partition = partition_for_key(key, count)
            else:
                partition = self._partitioner.choose(view.name, count, view.available)
        elif not 0 <= partition < count:
            raise RequestRefused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"it has the partitions 0 to {count - 1} only",
                topic=view.name,
                partition=partition,
            )
        known = self._partitions.get(view.name)
        if known is None or len(known) != count:
            known = [TopicPartition(view.name, number) for number in range(count)]
            self._partitions[view.name] = known
        return known[partition]

    def _partition_of_key(self, view: TopicView, key: bytes) -> int | None:
        count = len(view.partitions)
        if self._partitioner_given is not None:
            return self._partitioner_given(Unplaced(view.name, key, None, count, view.available))
        return partition_for_key(key, count)

    def _move_on(self, view: TopicView, left: TopicPartition) -> TopicPartition:
        """Choose another partition for records without a key."""
        count = len(view.partitions)
        other = self._partitioner.move_on(view.name, left.partition, count, view.available)
        return self._choose(view, other, None)

    async def _have_room(self, sender: Sender, size_bytes: int) -> None:
        """Wait until a record of that size can be taken; callers are served in order of arrival."""
        accumulator, lock = sender.accumulator, sender.room_lock
        if accumulator.has_room(size_bytes) and not lock.locked():
            return
        async with lock:
            accumulator.begin_wait(size_bytes)
            try:
                self._running()
                while not accumulator.has_room(size_bytes):
                    sender.room.clear()
                    sender.wake()
                    await sender.room.wait()
                    self._running()
            finally:
                accumulator.end_wait()

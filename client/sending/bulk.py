"""Sends many records at once, without an object or a future per record.

Lists and columns are cut into batches as they are and encoded in one pass when a batch leaves.
The memory limit is the one for single records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.records.arguments import whole
from ottla.client.records.delivery import BatchDelivery, Delivery
from ottla.client.records.record_checks import checked_timestamp, too_large
from ottla.client.records.row_runs import Rows, part_within
from ottla.client.records.rows import Divider
from ottla.client.sending.batch import BATCH_OVERHEAD_BYTES, BatchPhase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.cluster.metadata import TopicView
    from ottla.client.records.rows import Records
    from ottla.client.sending.sender import Sender
    from ottla.client.settings.config import ProducerConfig
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock


class BulkSending(ABC):
    """The part of ``Producer`` that takes many records at once."""

    config: ProducerConfig

    async def send_batch(
        self,
        topic: str,
        records: Records,
        *,
        partition: int | None = None,
        key: bytes | None = None,
        timestamp: int | None = None,
    ) -> BatchDelivery:
        """Take many records; wait while memory is full, as ``send`` does.

        Serializers and interceptors do not see these records: they are bytes already. Records
        without a key stay together. A batch may have up to ``request_bytes_max`` bytes. The caller
        may change a sequence as soon as this returns, but the memory behind columns and Arrow data
        only after delivery.

        Args:
            topic: The topic's name.
            records: A sequence of values, a ``Columns``, or an object with Arrow data (pyarrow,
                polars, ...) that has a column ``value`` and optionally ``key``, ``timestamp``,
                ``headers`` and ``partition``.
            partition: The partition of all records; None (default) lets each key decide.
            key: The key of all values of a sequence; None by default.
            timestamp: The time of all values of a sequence, in milliseconds since 1970; None
                (default) for now.

        Returns:
            The ``BatchDelivery`` of all records.

        Raises:
            RequestRefused: As ``send``; some records may have been taken.
            TypeError: ``records`` has another type; some records may have been taken.
        """
        sender = self._running()
        serial = -1 if sender.transactions is None else sender.transactions.enter()
        view = await self._topic(topic)
        timestamp = self._clock.wall_ms() if timestamp is None else checked_timestamp(timestamp)
        if partition is not None:
            partition = whole("a partition's number", partition)
        divider = Divider(partition, partial(self._partition_of_key, view), timestamp)
        deliveries: list[Delivery] = []
        for where, rows in divider.divide(records, key):
            if where is not None and where >= len(view.partitions):
                view = await self._grown(view)
                if sender.transactions is not None:
                    sender.transactions.check_open(serial)
            deliveries += await self._take_rows(view, where, rows, serial)
        return BatchDelivery(deliveries)

    @property
    def _bulk_bytes(self) -> int:
        """The size limit of a batch of records that arrive together, in bytes. Large batches spread
        the cost of a request over as many records as possible."""
        config = self.config
        many_bytes = min(config.request_bytes_max, config.memory_bytes_max // 8)
        return max(config.batch_bytes, many_bytes) - BATCH_OVERHEAD_BYTES

    async def send_values(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> list[Delivery]:
        """Take a sequence of values, as ``send_batch`` does.

        Args:
            topic: The topic's name.
            values: The values; None is a tombstone.
            partition: The partition of all values; None (default) lets the partitioner choose.
            timestamp: The time of all values, in milliseconds since 1970; None (default) for now.

        Returns:
            One ``Delivery`` for each batch that the values went into.

        Raises:
            RequestRefused: As ``send``.
        """
        sent = await self.send_batch(topic, values, partition=partition, timestamp=timestamp)
        return sent.parts

    async def _take_rows(
        self, view: TopicView, partition: int | None, rows: Rows, serial: int
    ) -> list[Delivery]:
        """Append rows batch by batch; rows without a partition change partitions after each
        batch."""
        sender = self._running()
        limit_bytes = self._bulk_bytes
        deliveries: list[Delivery] = []
        start = 0
        while start < rows.count:
            part = part_within(rows, start, limit_bytes)
            size_bytes = part.size_bytes
            if size_bytes > self.config.request_bytes_max:
                raise too_large(view.name, size_bytes, self.config.request_bytes_max)
            await self._have_room(sender, size_bytes)
            target = self._choose(view, partition, None)
            if sender.transactions is not None:
                sender.transactions.admit(target, serial)
            placed = sender.accumulator.append_part(target, part, self._clock.now_ms())
            future = sender.future_of(placed.batch)
            timestamp = rows.timestamp(start)
            deliveries.append(
                Delivery(future, target, placed.first_index, timestamp, part.record_count)
            )
            start = part.stop
            if partition is None and placed.batch.phase is BatchPhase.CLOSED:
                self._move_on(view, target)
            sender.wake()
        return deliveries

    # What the producer provides.

    @property
    @abstractmethod
    def _clock(self) -> Clock: ...

    @abstractmethod
    def _running(self) -> Sender:
        """Return the running sender. Raises ClientClosed."""

    @abstractmethod
    async def _topic(self, name: str) -> TopicView:
        """Return the topic. Raises RequestRefused."""

    @abstractmethod
    async def _grown(self, view: TopicView) -> TopicView: ...

    @abstractmethod
    def _choose(self, view: TopicView, partition: int | None, key: bytes | None) -> TopicPartition:
        """Choose a partition. Raises RequestRefused for a partition that does not exist."""

    @abstractmethod
    def _partition_of_key(self, view: TopicView, key: bytes) -> int | None:
        """Return the partition of a key; None if the key does not decide."""

    @abstractmethod
    def _move_on(self, view: TopicView, left: TopicPartition) -> TopicPartition: ...

    @abstractmethod
    async def _have_room(self, sender: Sender, size_bytes: int) -> None:
        """Wait for room. Raises ClientClosed."""

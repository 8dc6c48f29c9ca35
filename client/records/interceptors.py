"""Interceptors: hooks of the application that see records and results.

Override the methods that you need; several interceptors are called in the given order. An
exception of ``on_send`` or ``on_consume`` is raised by the call in which they run. ``on_delivery``
and ``on_commit`` run on the event loop between requests and must not block; their exceptions are
logged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.client.records.consumer_record import ConsumerRecord
    from ottla.client.records.producer_record import Headers
    from ottla.protocol.ids import TopicPartition


class ProducerRecord(NamedTuple):
    """A record before it is serialized; ``_replace`` returns a changed copy.

    Attributes:
        topic: The topic's name.
        value: The value; None is a tombstone.
        key: The key, or None.
        partition: The partition's number; None leaves the choice to the partitioner.
        timestamp: Milliseconds since 1970; None for now.
        headers: Pairs of a name and bytes.
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = ()


class DeliveryReport(NamedTuple):
    """The result of one batch.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        base_offset: The first record's offset; the others follow. -1 with acks=0 or an error.
        record_count: How many records the batch has.
        append_time_ms: The broker's time; -1 if the topic keeps the times of the records.
        error: Why the batch was not stored; None if it was.
    """

    topic: str
    partition: int
    base_offset: int
    record_count: int
    append_time_ms: int = -1
    error: Exception | None = None


class ProducerInterceptor:
    """Sees every record of a producer, and the result of every batch."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record, or another one to send instead.

        Args:
            record: The record before it is serialized.
        """
        return record

    def on_delivery(self, report: DeliveryReport) -> None:
        """Called when a batch was stored or has failed.

        Args:
            report: The result of the batch.
        """


class BatchInterceptor(ProducerInterceptor):
    """A producer interceptor that also sees the headers of the records of each batch."""

    def on_batch(self, report: DeliveryReport, headers: list[Headers], first_ms: int) -> None:
        """Called when a batch was stored or has failed, after ``on_delivery``.

        Args:
            report: The result of the batch.
            headers: The headers of each record; empty for records that were sent as a block.
            first_ms: The first record's timestamp in milliseconds since 1970; -1 for a block.
        """


class ConsumerInterceptor:
    """Sees every record that a consumer returns, and every commit."""

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Return the records, fewer, or others. The positions move past all the records in any
        case.

        Args:
            records: The records that the call is about to return.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Called when positions were committed.

        Args:
            offsets: For each partition the offset of the next record to read.
        """


if TYPE_CHECKING:
    OnDelivery = Callable[[DeliveryReport], object]

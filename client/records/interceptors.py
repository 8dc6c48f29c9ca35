"""Hooks of the application on the way of its records, and what a finished batch reports.

Subclass what is needed and leave the rest; several are called in the order given. What
``on_send`` and ``on_consume`` raise comes out of the call they run in; ``on_delivery`` and
``on_commit`` run on the event loop between requests, must not block, and what they raise is
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
    """A record on its way in, before it is serialized; ``_replace`` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = ()


class DeliveryReport(NamedTuple):
    """The fate of one batch: ``error`` is None when it is stored.

    The records of the batch are at consecutive offsets from ``base_offset`` on, which is -1 where
    nobody told it: with acks=0, and with an error. ``append_time_ms`` is the broker's time, -1
    where the topic keeps the times of the records."""

    topic: str
    partition: int
    base_offset: int
    record_count: int
    append_time_ms: int = -1
    error: Exception | None = None


class ProducerInterceptor:
    """Sees every record of a producer, and every batch's fate."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record, or another in its place."""
        return record

    def on_delivery(self, report: DeliveryReport) -> None:
        """A batch was stored, or has failed."""


class ConsumerInterceptor:
    """Sees all that a consumer returns, and what it commits."""

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Return the records, fewer, or others in their place. Positions move past all the same."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These positions are committed: each the offset of the next record to read."""


if TYPE_CHECKING:
    OnDelivery = Callable[[DeliveryReport], object]

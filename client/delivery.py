"""What the application gets back for records it has sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Generator

    from ottla.protocol.ids import TopicPartition


class BatchDelivered(NamedTuple):
    """What became of a batch: -1 for an offset that nobody told, and for times not set there."""

    base_offset: int
    append_time_ms: int


class Delivered(NamedTuple):
    """Where a record is now. The offset is -1 with acks=0, and where a retry was recognised so
    late that the broker did not know any more where the first try went."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """Await it to learn that the record is acknowledged, and where it is.

    For records that were sent together it tells where the first is; they are ``record_count``
    records at consecutive offsets."""

    __slots__ = ("_future", "_index", "_timestamp", "partition", "record_count")

    def __init__(
        self,
        future: asyncio.Future[BatchDelivered],
        partition: TopicPartition,
        index: int,
        timestamp: int,
        record_count: int = 1,
    ) -> None:
        self._future = future
        self._index = index
        self._timestamp = timestamp
        self.partition = partition
        self.record_count = record_count

    @property
    def done(self) -> bool:
        """Whether awaiting it returns, or raises, at once."""
        return self._future.done()

    def is_together_with(self, other: Delivery) -> bool:
        """Whether both are in one batch, so that they succeed or fail together."""
        return self._future is other._future

    def __await__(self) -> Generator[object, None, Delivered]:
        # Shielded: giving up one record must not cancel those that share its batch.
        base_offset, append_time_ms = yield from asyncio.shield(self._future).__await__()
        offset = -1 if base_offset < 0 else base_offset + self._index
        timestamp = self._timestamp if append_time_ms < 0 else append_time_ms
        return Delivered(*self.partition, offset, timestamp)


class DeliveredBatch(NamedTuple):
    """Where records that came together are now: at so many offsets from ``base_offset`` on, which
    is -1 where ``Delivered`` says so."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


class BatchDelivery:
    """Await it to learn that all records of one call are acknowledged, and where they are.

    ``parts`` are the deliveries one by one, a batch or a share of one each, in the order in which
    they were taken."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Delivery]) -> None:
        self.parts = parts

    @property
    def done(self) -> bool:
        """Whether awaiting it returns, or raises, at once."""
        return all(part.done for part in self.parts)

    @property
    def record_count(self) -> int:
        return sum(part.record_count for part in self.parts)

    def __await__(self) -> Generator[object, None, list[DeliveredBatch]]:
        """Raises what the first failed part does, once every part has its fate."""
        found: list[DeliveredBatch] = []
        failure: ClientError | None = None
        for part in self.parts:
            try:
                topic, partition, offset, _ = yield from part.__await__()
            except ClientError as error:
                failure = failure or error
            else:
                found.append(DeliveredBatch(topic, partition, offset, part.record_count))
        if failure is not None:
            raise failure
        return found

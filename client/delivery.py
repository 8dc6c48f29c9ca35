"""What the application gets back for records it has sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

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

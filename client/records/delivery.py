"""The results of sends: what a producer returns for records that it has accepted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Generator

    from ottla.protocol.ids import TopicPartition


class BatchDelivered(NamedTuple):
    """The result of a batch; an offset or time is -1 if the broker did not report it.

    A batch that was too large for its topic was sent in ``pieces``, each with its own result."""

    base_offset: int
    append_time_ms: int
    pieces: tuple[Piece, ...] = ()


class Piece(NamedTuple):
    """A part of a batch's records and its result."""

    record_count: int
    fate: BatchDelivered | BaseException


class DeliveredShare(NamedTuple):
    """Consecutive records; the offset is that of the first."""

    offset: int
    append_time_ms: int
    record_count: int


def join(
    whole: asyncio.Future[BatchDelivered],
    halves: list[tuple[int, asyncio.Future[BatchDelivered]]],
) -> None:
    """Resolve the future of a batch when the futures of its halves are resolved."""

    def settle(_: asyncio.Future[BatchDelivered]) -> None:
        if whole.done() or not all(future.done() for _, future in halves):
            return
        pieces: list[Piece] = []
        for record_count, future in halves:
            error = future.exception()
            fate = error if error is not None else future.result()
            if isinstance(fate, BatchDelivered) and fate.pieces:
                pieces += fate.pieces
            else:
                pieces.append(Piece(record_count, fate))
        whole.set_result(BatchDelivered(-1, -1, tuple(pieces)))

    for _, future in halves:
        future.add_done_callback(settle)


def shares_of(fate: BatchDelivered, index: int, record_count: int) -> list[DeliveredShare]:
    """The offsets of ``record_count`` records of a batch, from ``index`` on. Raises the error of
    the first of them that failed."""
    if not fate.pieces:
        offset = -1 if fate.base_offset < 0 else fate.base_offset + index
        return [DeliveredShare(offset, fate.append_time_ms, record_count)]
    found: list[DeliveredShare] = []
    for piece in fate.pieces:
        count = min(record_count, piece.record_count - index)
        if count > 0:
            if isinstance(piece.fate, BaseException):
                raise piece.fate
            found += shares_of(piece.fate, index, count)
            record_count -= count
        index = max(index - piece.record_count, 0)
    return found


class RecordsOutcome(NamedTuple):
    """Consecutive records, and their common error; None if they are delivered."""

    record_count: int
    error: ClientError | None


def outcomes_of(fate: BatchDelivered, index: int, record_count: int) -> list[RecordsOutcome]:
    """What became of ``record_count`` records of a batch, from ``index`` on."""
    if not fate.pieces:
        return [RecordsOutcome(record_count, None)]
    found: list[RecordsOutcome] = []
    for piece in fate.pieces:
        count = min(record_count, piece.record_count - index)
        if count > 0:
            if isinstance(piece.fate, ClientError):
                found.append(RecordsOutcome(count, piece.fate))
            elif isinstance(piece.fate, BaseException):
                raise piece.fate
            else:
                found += outcomes_of(piece.fate, index, count)
            record_count -= count
        index = max(index - piece.record_count, 0)
    return found


class Delivered(NamedTuple):
    """Where an acknowledged record is.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The record's offset. -1 with acks=0, and if the broker recognised a retry so late
            that it no longer knew the offset of the first attempt.
        timestamp: The record's time, in milliseconds since 1970.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class Delivery:
    """The future acknowledgement of a record: await it to get a ``Delivered``.

    A ``Delivery`` of several records that were sent together reports the position of the first. The
    ``record_count`` records have consecutive offsets unless the broker found their batch too large
    (KIP-126). Awaiting raises ClientError if the record was refused, or was not acknowledged within
    ``delivery_timeout_ms``."""

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
        """Check whether two records are in one batch, so that they succeed or fail together.

        Args:
            other: The other record's delivery.
        """
        return self._future is other._future

    def __await__(self) -> Generator[object, None, Delivered]:
        offset, append_time_ms, _ = (yield from self.shares())[0]
        timestamp = self._timestamp if append_time_ms < 0 else append_time_ms
        return Delivered(*self.partition, offset, timestamp)

    async def outcomes(self, record_count: int) -> list[RecordsOutcome]:
        """Internal: wait, and return what became of records of its batch.

        Args:
            record_count: How many records of the batch, from its own on.
        """
        try:
            fate = await asyncio.shield(self._future)
        except ClientError as error:
            return [RecordsOutcome(record_count, error)]
        return outcomes_of(fate, self._index, record_count)

    def shares(self) -> Generator[object, None, list[DeliveredShare]]:
        """Internal: wait, and return where all the records are."""
        # Shielded: cancelling one delivery must not cancel the others of the batch.
        fate = yield from asyncio.shield(self._future).__await__()
        return shares_of(fate, self._index, self.record_count)


class DeliveredBatch(NamedTuple):
    """Where records that were sent together are: at consecutive offsets.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        base_offset: The first record's offset; -1 where ``Delivered`` has -1.
        record_count: How many records.
    """

    topic: str
    partition: int
    base_offset: int
    record_count: int


class BatchDelivery:
    """The future acknowledgement of all records of one call: await it to get ``DeliveredBatch``
    items.

    ``parts`` has one ``Delivery`` for each batch, or share of a batch, in the order of the
    records."""

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
        """Raises the error of the first failed part when every part is acknowledged or has
        failed."""
        found: list[DeliveredBatch] = []
        failure: ClientError | None = None
        for part in self.parts:
            try:
                shares = yield from part.shares()
            except ClientError as error:
                failure = failure or error
            else:
                found += [
                    DeliveredBatch(*part.partition, share.offset, share.record_count)
                    for share in shares
                ]
        if failure is not None:
            raise failure
        return found

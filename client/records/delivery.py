"""What the application gets back for records it has sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Generator

    from ottla.protocol.ids import TopicPartition


class BatchDelivered(NamedTuple):
    """What became of a batch: -1 for an offset that nobody told, and for times not set there.

    One that was too large for its topic went in ``pieces``, each with a fate of its own."""

    base_offset: int
    append_time_ms: int
    pieces: tuple[Piece, ...] = ()


class Piece(NamedTuple):
    """So many of a batch's records, and what became of them."""

    record_count: int
    fate: BatchDelivered | BaseException


class Share(NamedTuple):
    """Records that are next to each other; the offset is the first one's."""

    offset: int
    append_time_ms: int
    record_count: int


def join(
    whole: asyncio.Future[BatchDelivered],
    halves: list[tuple[int, asyncio.Future[BatchDelivered]]],
) -> None:
    """Settle the future of a batch once those of its halves are."""

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


def shares_of(fate: BatchDelivered, index: int, record_count: int) -> list[Share]:
    """Where records of a batch are, from that index on. Raises what the first of them failed with
    that has."""
    if not fate.pieces:
        offset = -1 if fate.base_offset < 0 else fate.base_offset + index
        return [Share(offset, fate.append_time_ms, record_count)]
    found: list[Share] = []
    for piece in fate.pieces:
        count = min(record_count, piece.record_count - index)
        if count > 0:
            if isinstance(piece.fate, BaseException):
                raise piece.fate
            found += shares_of(piece.fate, index, count)
            record_count -= count
        index = max(index - piece.record_count, 0)
    return found


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
    records, at consecutive offsets unless their batch was too large for the topic (KIP-126)."""

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
        offset, append_time_ms, _ = (yield from self.shares())[0]
        timestamp = self._timestamp if append_time_ms < 0 else append_time_ms
        return Delivered(*self.partition, offset, timestamp)

    def shares(self) -> Generator[object, None, list[Share]]:
        """To be awaited from within: where all the records are."""
        # Shielded: giving up one record must not cancel those that share its batch.
        fate = yield from asyncio.shield(self._future).__await__()
        return shares_of(fate, self._index, self.record_count)


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

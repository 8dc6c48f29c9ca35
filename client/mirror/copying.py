"""Sends fetched records to the same partitions of the target, and returns their offsets there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.mirror.translation import Run
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ottla.client.fetching.batches import FetchedBatch
    from ottla.client.mirror.topics import Copied
    from ottla.client.producer import Producer
    from ottla.client.records.consumer_record import ConsumerRecord
    from ottla.client.records.delivery import BatchDelivery
    from ottla.protocol.ports import Buffer

MARK = "ottla-mirror"
# The largest piece sent at once, before compression: well below default topic limits.
PIECE_BYTES_MAX = 512 * 1024


class Marks(NamedTuple):
    """The cluster ids for headers: where records come from, and where they go."""

    source_id: str
    target_id: str


class CopiedRun(NamedTuple):
    """A copied piece and its offsets on the target; no runs if the target did not report them."""

    where: TopicPartition
    target_topic: str
    record_count: int
    size_bytes: int
    runs: list[Run]


class Copier:
    """Copies the batches of one link with its producer."""

    def __init__(
        self, producer: Producer[bytes, bytes], copied: Copied, marks: Marks | None
    ) -> None:
        self._producer = producer
        self._copied = copied
        self._marks = marks

    async def copy(self, batches: Iterable[FetchedBatch]) -> list[CopiedRun]:
        """Return when the target has acknowledged everything. Raises the errors of sends, and
        RequestRefused for damaged batches."""
        sent: list[tuple[TopicPartition, str, Columns, BatchDelivery]] = []
        for batch in batches:
            where = TopicPartition(batch.topic, batch.partition)
            target = self._copied.names[batch.topic]
            for piece in pieces(self._columns(batch), PIECE_BYTES_MAX):
                delivery = await self._producer.send_batch(target, piece, partition=batch.partition)
                sent.append((where, target, piece, delivery))
        return [
            CopiedRun(where, target, piece.count, size_bytes(piece), await runs(piece, delivery))
            for where, target, piece, delivery in sent
        ]

    def _columns(self, batch: FetchedBatch) -> Columns:
        if self._marks is None:
            return batch.columns()
        return marked(batch.records(), self._marks)


def marked(records: Iterable[ConsumerRecord[bytes, bytes]], marks: Marks) -> Columns:
    """The records with one more header, without those that were on the target before."""
    been, mark = marks.target_id.encode(), (MARK, marks.source_id.encode())
    return Columns.of(
        (record.offset, record.timestamp, record.key, record.value, (*record.headers, mark))
        for record in records
        if not any(name == MARK and value == been for name, value in record.headers)
    )


def size_bytes(columns: Columns) -> int:
    """The approximate size: keys and values."""
    return _length(columns.keys.ends) + _length(columns.values.ends)


def _length(ends: Buffer) -> int:
    numbers = memoryview(ends).cast("B").cast("i")
    length: int = numbers[-1] - numbers[0]
    return length


def pieces(columns: Columns, limit_bytes: int) -> Iterator[Columns]:
    """Split the records, in order, into parts of at most that size, or of one record."""
    if columns.count > 1 and size_bytes(columns) > limit_bytes:
        middle = columns.count // 2
        yield from pieces(columns.slice(0, middle), limit_bytes)
        yield from pieces(columns.slice(middle, columns.count), limit_bytes)
    elif columns.count:
        yield columns


async def runs(columns: Columns, delivery: BatchDelivery) -> list[Run]:
    """The offset runs of the records. Raises the errors of the delivery."""
    offsets = memoryview(columns.offsets).cast("B").cast("q")
    found: list[Run] = []
    start = 0
    for part in await delivery:
        if part.base_offset >= 0:
            stop = start + part.record_count
            target_end = part.base_offset + part.record_count
            run = Run(offsets[start], offsets[stop - 1] + 1, part.base_offset, target_end)
            found.append(run)
        start += part.record_count
    return joined(found)


def joined(found: Sequence[Run]) -> list[Run]:
    """The runs, with adjacent ones joined."""
    kept: list[Run] = []
    for run in found:
        both = kept[-1].joined(run) if kept else None
        if both is None:
            kept.append(run)
        else:
            kept[-1] = both
    return kept

"""What one fetch brought for one partition, on its way to the application.

Batches are looked at when they arrive, their records only when they are taken: checking,
decompressing and decoding happen in the application's turn, at its pace.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import RequestRefused
from ottla.client.state.visibility import Aborted, visible_batches
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import check_crc, iterate_whole_batches
from ottla.protocol.records.record import Headers, Record, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.config import ConsumerConfig
    from ottla.client.fetch_request import Wanted
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.batch import RecordBatch


class ConsumerRecord(NamedTuple):
    """One record as the application gets it; the timestamp is in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Chunk:
    """Taken from front to back, once. ``position`` is the offset after what was taken, and
    ``next_offset`` the one after the last whole batch, None if there is not one."""

    __slots__ = (
        "_batch_end",
        "_batches",
        "_config",
        "_failure",
        "_records",
        "next_offset",
        "partition",
        "position",
        "turn",
    )

    def __init__(
        self, want: Wanted, data: memoryview, aborted: list[Aborted] | None, config: ConsumerConfig
    ) -> None:
        """Raises KafkaError if the data does not even begin with a record batch."""
        self.partition = want.partition
        self.turn = want.turn
        self.position = want.offset
        self._config = config
        self._batches: deque[tuple[RecordBatch, bool]] = deque()
        try:
            for batch, is_visible in visible_batches(iterate_whole_batches(data), aborted):
                # A broker sends whole batches, so the first may begin before the wanted offset.
                if batch.next_offset > want.offset:
                    self._batches.append((batch, is_visible))
        except KafkaError:
            # What is good before the damage is worth having; the damage will be met again.
            if not self._batches:
                raise
        self.next_offset = self._batches[-1][0].next_offset if self._batches else None
        # The batch whose records are being taken: what is left of it, and where it ends.
        self._records: Iterator[Record] | None = None
        self._batch_end = want.offset
        self._failure: KafkaError | None = None

    @property
    def is_done(self) -> bool:
        """Whether everything has been taken."""
        return self._records is None and not self._batches and self._failure is None

    def take_batch(self) -> RecordBatch | None:
        """The next visible batch, with what is left of one whose records were being taken
        skipped; None at the end.

        Raises RequestRefused with CORRUPT_MESSAGE, and then has not moved past the damage."""
        if self._records is not None:
            self._records = None
            self.position = self._batch_end
        try:
            batch = self._next_visible()
        except KafkaError as error:
            raise refused(error, self.partition) from error
        if batch is not None:
            self.position = batch.next_offset
        return batch

    def take(self, count: int) -> list[ConsumerRecord]:
        """The next records, at most that many; none only at the end.

        Raises RequestRefused with CORRUPT_MESSAGE, and then has not moved past the damage."""
        found: list[ConsumerRecord] = []
        try:
            if self._failure is not None:
                raise self._failure
            while len(found) < count and self._take_from_batch(found, count - len(found)):
                pass
        except KafkaError as error:
            if not found:
                raise refused(error, self.partition) from error
            # The good ones first; the application hears of the rest when it comes back.
            self._failure = error
        return found

    def _take_from_batch(self, found: list[ConsumerRecord], count: int) -> bool:
        """Take from the batch at hand, or open the next; False at the end of the chunk."""
        if self._records is None:
            batch = self._next_visible()
            if batch is None:
                return False
            self._records = read_records(batch, self._config.batch_bytes_max)
        taken = list(islice(self._records, count))
        prefix: tuple[object, ...] = tuple(self.partition)
        new = tuple.__new__
        # The same as ConsumerRecord(*prefix, *record), at a third of its price.
        found += [
            new(ConsumerRecord, prefix + record)
            for record in taken
            if record.offset >= self.position
        ]
        if len(taken) < count:
            self._records = None
            self.position = self._batch_end
        else:
            self.position = max(self.position, taken[-1].offset + 1)
        return True

    def _next_visible(self) -> RecordBatch | None:
        while self._batches:
            batch, is_visible = self._batches[0]
            if is_visible and self._config.check_crc and not check_crc(batch):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {batch.base_offset} is damaged"
                )
            self._batches.popleft()
            self._batch_end = batch.next_offset
            if is_visible:
                return batch
            self.position = batch.next_offset
        return None


def refused(error: KafkaError, where: TopicPartition) -> RequestRefused:
    """What is wrong with the batches of a partition, with the partition's name."""
    return RequestRefused.for_partition(error.code, where, None, error.message)

"""Fetched batches, undecoded until the application chooses a form.

A batch knows its position without being decoded. The first access checks its checksum; records,
values and columns are then decoded in one pass each, and only the bytes are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ottla.client.records.arrow import to_arrow
from ottla.client.records.consumer_record import ConsumerRecord as ConsumerRecord
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.batch import check_crc
from ottla.protocol.records.codec import (
    decode_as,
    decode_columns,
    decode_columns_in_place,
    decode_values,
)
from ottla.protocol.records.record import record_view
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from ottla.client.settings.config import ConsumerConfig
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.columns import Columns


# The least memory of a record object: a batch of a few compressed kilobytes can hold tens of
# millions of records.
OBJECT_BYTES_MIN = 128


class FetchedBatch:
    """A batch as its producer sent it, from the wanted offset on.

    A batch may have fewer records than offsets, because compaction leaves holes.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        base_offset: The first wanted offset.
        next_offset: The offset after the batch.
        header: The batch as it was received, for copying it elsewhere.
    """

    __slots__ = ("_config", "_data", "base_offset", "header", "next_offset", "partition", "topic")

    def __init__(
        self, where: TopicPartition, header: RecordBatch, from_offset: int, config: ConsumerConfig
    ) -> None:
        self.topic, self.partition = where
        self.base_offset = max(from_offset, header.base_offset)
        self.next_offset = header.next_offset
        self.header = header
        self._config = config
        self._data: Buffer | None = None

    def __repr__(self) -> str:
        place = f"{self.topic}-{self.partition}"
        return f"FetchedBatch({place}, offsets {self.base_offset}..{self.next_offset - 1})"

    @property
    def is_whole(self) -> bool:
        """Whether all records of the batch are wanted."""
        return self.base_offset == self.header.base_offset

    @property
    def count(self) -> int:
        """The number of records. A batch that begins before the wanted offset is decoded to count
        them.

        It raises what ``records`` raises."""
        return self.header.record_count if self.is_whole else len(self.records())

    def records(self) -> list[ConsumerRecord[bytes, bytes]]:
        """Decode the records.

        Raises:
            RequestRefused: CORRUPT_MESSAGE for a damaged batch; MESSAGE_TOO_LARGE if it
                decompresses to more than ``batch_bytes_max``, or if its records as objects would
                take more.
        """
        prefix = (self.topic, self.partition)
        try:
            self._check_count()
            return decode_as(self.header, self._open(), ConsumerRecord, prefix, self.base_offset)
        except KafkaError as error:
            raise self._refused(error) from error

    def values(self) -> list[bytes | None]:
        """Decode the values of the records. Raises as ``records``."""
        if not self.is_whole:
            return [record.value for record in self.records()]
        try:
            self._check_count()
            return decode_values(self.header, self._open())
        except KafkaError as error:
            raise self._refused(error) from error

    def columns(self) -> Columns:
        """Decode the records as columns.

        Raises:
            RequestRefused: As ``records``.
            ValueError: The keys or the values have more than two gigabytes.
        """
        return self._columns(decode_columns)

    def last_columns(self) -> Columns:
        """Decode the records as columns, as the last use of this batch.

        The values stay in the buffer in which they were received, and the batch's bytes may be
        overwritten: nothing else may use the batch. Raises as ``columns``."""
        return self._columns(decode_columns_in_place)

    def _columns(self, decode: Callable[[RecordBatch, Buffer], Columns]) -> Columns:
        try:
            columns = decode(self.header, self._open())
        except KafkaError as error:
            raise self._refused(error) from error
        return columns if self.is_whole else columns_from(columns, self.base_offset)

    def arrow(self) -> pa.RecordBatch:
        """Decode the records as Arrow data with the schema ``arrow.SCHEMA``.

        Raises:
            RequestRefused: As ``records``.
            ImportError: pyarrow is not installed.
        """
        return to_arrow(TopicPartition(self.topic, self.partition), [self.columns()])

    def _check_count(self) -> None:
        count, limit_bytes = self.header.record_count, self._config.batch_bytes_max
        if count * OBJECT_BYTES_MIN > limit_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch at offset {self.header.base_offset} has {count} records, too many "
                f"objects for batch_bytes_max = {limit_bytes}; columns() takes less room",
            )

    def _open(self) -> Buffer:
        """Check and decompress the bytes of the records."""
        data = self._data
        if data is None:
            data = self._data = open_batch(self.header, self._config)
        return data

    def _refused(self, error: KafkaError) -> RequestRefused:
        return RequestRefused(error.code, error.message, topic=self.topic, partition=self.partition)


def columns_from(columns: Columns, offset: int) -> Columns:
    """Return the records from that offset on."""
    return columns.slice(bisect_left(_offsets(columns), offset), columns.count)


def columns_before(columns: Columns, offset: int) -> Columns:
    """Return the records before that offset."""
    return columns.slice(0, bisect_left(_offsets(columns), offset))


def last_offset(columns: Columns) -> int:
    """Return the offset of the last record; the columns must not be empty."""
    return _offsets(columns)[columns.count - 1]


def _offsets(columns: Columns) -> memoryview:
    return memoryview(columns.offsets).cast("B").cast("q")


def open_batch(batch: RecordBatch, config: ConsumerConfig) -> Buffer:
    """Check and decompress the bytes of a batch's records. Raises KafkaError."""
    if config.check_crc and not check_crc(batch):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {batch.base_offset} is damaged"
        )
    return record_view(batch, config.batch_bytes_max)

"""Messages of format 1 that a log keeps as they came, seen as record batches. Pure.

A log, its indexes and recovery ask a batch for its offsets, its largest timestamp, its size and its
checksum; a stored message or wrapper answers the same questions. It has neither a leader epoch nor
a producer. The broker changes a kept message in three fields: its offset, which no checksum covers
(KIP-31), and with append times the timestamp and its type, with the checksum (KIP-32).
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import (
    APPEND_TIME_BIT,
    LENGTH_END,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordBatch,
    TimestampType,
    parse_batch,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.old_messages import (
    CoveredOffsets,
    check_message_crc,
    parse_message,
    read_messages,
    span_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer

KEPT_MAGIC = 1
_CRC_POSITION = LENGTH_END
_ATTRIBUTES_POSITION = 17
_TIMESTAMP_POSITION = 18
_put_int64 = struct.Struct(">q").pack_into
_put_uint32 = struct.Struct(">I").pack_into
_NO_EPOCH = -1


class KeptMessage(RecordBatch):
    """One stored entry of format 0 or 1: a message, or a wrapper with its messages."""

    __slots__ = ()

    @staticmethod
    def parse(buffer: Buffer, position: int = 0) -> KeptMessage:
        """The entry that starts at a position; what follows it is not looked at.

        A wrapper is decompressed, because only its messages say where it begins. With a wrong
        checksum an entry counts as one message. Raises KafkaError if it is malformed, not all
        there, a record batch, or wraps what cannot be read."""
        message = parse_message(buffer, position)
        span = CoveredOffsets(message.offset, message.offset, 1)
        if message.is_compressed and check_message_crc(message):
            span = span_of(message)
        if span.first_offset < 0:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"a message has the offset {span.first_offset}"
            )
        one = KeptMessage()
        one.buffer = buffer if type(buffer) is memoryview else memoryview(buffer)
        one.position = position
        one.size_bytes = message.size_bytes
        one.magic, one.crc, one.attributes = message.magic, message.crc, message.attributes
        one.base_offset = span.first_offset
        one.last_offset_delta = span.last_offset - span.first_offset
        one.record_count = span.message_count
        one.base_timestamp = one.max_timestamp = message.timestamp
        one.leader_epoch = _NO_EPOCH
        one.producer_id, one.producer_epoch, one.base_sequence = NO_PRODUCER_ID, -1, NO_SEQUENCE
        return one

    def as_batch(self) -> RecordBatch:
        """The records as one batch at the same offsets. Raises KafkaError, also for gaps."""
        records = list(read_messages(parse_message(self.buffer, self.position)))
        if [one.offset - self.base_offset for one in records] != list(range(len(records))):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"offsets are missing in the wrapper at {self}"
            )
        is_stamped = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        options = BatchOptions(
            codec=self.codec,
            base_offset=self.base_offset,
            append_time_ms=self.max_timestamp
            if is_stamped and self.max_timestamp > NO_TIMESTAMP
            else None,
        )
        entries = [(one.timestamp, one.key, one.value, ()) for one in records]
        return parse_batch(memoryview(encode_batch(entries, options)))

    def has_message_crc(self) -> bool:
        """Whether the CRC-32 from the magic to the end is right."""
        return self._crc() == self.crc

    def stamp(self, base_offset: int, leader_epoch: int) -> None:
        """Give the entry its place: its offset is that of its last message, those inside count
        from 0. It has no place for the epoch."""
        _put_int64(self.buffer, self.position, base_offset + self.last_offset_delta)
        self.base_offset = base_offset

    def stamp_append_time(self, timestamp_ms: int) -> None:
        """Set the timestamp, which then holds for all messages inside, and its type."""
        self.put_time(self.attributes | APPEND_TIME_BIT, timestamp_ms)

    def put_time(self, attributes: int, timestamp_ms: int) -> None:
        """Set attributes and timestamp, and the checksum that covers them; format 1 only."""
        assert self.magic == KEPT_MAGIC, "format 0 has no place for a timestamp"
        self.buffer[self.position + _ATTRIBUTES_POSITION] = attributes
        _put_int64(self.buffer, self.position + _TIMESTAMP_POSITION, timestamp_ms)
        self.attributes, self.base_timestamp, self.max_timestamp = (
            attributes,
            timestamp_ms,
            timestamp_ms,
        )
        self.crc = self._crc()
        _put_uint32(self.buffer, self.position + _CRC_POSITION, self.crc)

    def _crc(self) -> int:
        start, end = self.position + MAGIC_POSITION, self.position + self.size_bytes
        return zlib.crc32(self.buffer[start:end])


class KeptSet(RecordBatch):
    """The messages that one producer request brings for a partition, placed and stamped together.

    Its buffer holds nothing else, and its offsets have no gaps."""

    __slots__ = ("_messages",)

    def __init__(self, messages: Sequence[KeptMessage]) -> None:
        first = messages[0]
        self._messages = tuple(messages)
        self.buffer, self.position = first.buffer, 0
        self.size_bytes = len(first.buffer)
        self.magic, self.crc, self.attributes = KEPT_MAGIC, first.crc, first.attributes
        self.record_count = sum(one.record_count for one in messages)
        self.base_offset, self.last_offset_delta = 0, self.record_count - 1
        self.base_timestamp = first.base_timestamp
        self.max_timestamp = max(one.max_timestamp for one in messages)
        self.leader_epoch = _NO_EPOCH
        self.producer_id, self.producer_epoch, self.base_sequence = NO_PRODUCER_ID, -1, NO_SEQUENCE
        assert sum(one.size_bytes for one in messages) == self.size_bytes
        assert self.record_count > 0

    @property
    def entries(self) -> Sequence[RecordBatch]:
        return self._messages

    def stamp(self, base_offset: int, leader_epoch: int) -> None:
        """Place the messages one after the other. The epoch is for the leader's epoch file."""
        self.base_offset, self.leader_epoch = base_offset, leader_epoch
        for one in self._messages:
            one.stamp(base_offset, leader_epoch)
            base_offset = one.next_offset

    def stamp_append_time(self, timestamp_ms: int) -> None:
        """Make all messages appended at that time."""
        for one in self._messages:
            one.stamp_append_time(timestamp_ms)
        self.attributes |= APPEND_TIME_BIT
        self.base_timestamp = self.max_timestamp = timestamp_ms

"""Record batches (magic 2) as views: parse, check, and stamp what the broker may change in place.

Nothing here looks at records. The base offset and the leader epoch lie outside the checksum and
are patched freely (KIP-98); an append-time stamp lies inside and recomputes it. Lengths come from
a peer or a disk: none is believed before it was compared with the bytes that are really there.
Read record.py for what is inside, builder.py for making batches. HOT: once per produced batch.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NoReturn

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.compression import CODECS, Codec
from ottla.protocol.records.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.protocol.ports import Buffer

MAGIC = 2
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
# A batch's length field counts what follows it; so does that of the older formats.
LENGTH_POSITION = 8
LENGTH_END = 12
MAGIC_POSITION = 16
ATTRIBUTES_POSITION = 21
CRC_START = 17
CRC_END = 21
_MAX_TIMESTAMP_POSITION = 35

CODEC_BITS = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
_SEQUENCE_COUNT = 1 << 31

_unpack_header = HEADER.unpack_from
_put_place = struct.Struct(">qii").pack_into
_put_int64 = struct.Struct(">q").pack_into
_put_int32 = struct.Struct(">i").pack_into
_put_uint32 = struct.Struct(">I").pack_into
_put_int16 = struct.Struct(">h").pack_into

assert HEADER.size == HEADER_BYTES


def put_length(buffer: bytearray | memoryview, length: int) -> None:
    """Set the length field of the batch at the start of a buffer (its size without 12 bytes)."""
    _put_int32(buffer, LENGTH_POSITION, length)


def put_attributes(buffer: bytearray | memoryview, attributes: int) -> None:
    """Set the attributes of the batch at the start of a buffer; the checksum is then stale."""
    _put_int16(buffer, CRC_END, attributes)


class TimestampType(IntEnum):
    """Who set the timestamps of a batch."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class RecordBatch:
    """The header of one batch, and where the batch lies in its buffer.

    Made by ``parse_batch``, which has checked that the whole batch is there. It is a copy of the
    header: rather than ``stamp`` the buffer behind its back, use its own ``stamp``. Messages of
    format 1 that a log keeps are a subclass (message_sets/kept.py).
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
    )

    attributes: int
    buffer: memoryview
    position: int
    size_bytes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    crc: int
    last_offset_delta: int
    leader_epoch: int
    magic: int
    max_timestamp: int
    producer_epoch: int
    producer_id: int
    record_count: int

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets {self.base_offset}..{self.last_offset}, "
            f"{self.record_count} records, {self.size_bytes} bytes, epoch {self.leader_epoch}, "
            f"producer {self.producer_id}/{self.producer_epoch}/{self.base_sequence})"
        )

    @property
    def view(self) -> memoryview:
        """The batch's own bytes."""
        return self.buffer[self.position : self.position + self.size_bytes]

    @property
    def payload(self) -> memoryview:
        """The records, still compressed if they are."""
        return self.buffer[self.position + HEADER_BYTES : self.position + self.size_bytes]

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was made with; compaction keeps it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; after 2^31-1 comes 0. -1 without a producer."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_COUNT

    @property
    def codec(self) -> Codec:
        """Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for unassigned codec numbers."""
        number = self.attributes & CODEC_BITS
        if number >= len(CODECS):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec number {number}"
            )
        return CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_BITS != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Compaction has set a time after which tombstones go (in ``base_timestamp``)."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def entries(self) -> Sequence[RecordBatch]:
        """What indexes count one by one: the batch, or each message of a kept set."""
        return (self,)

    def as_batch(self) -> RecordBatch:
        """The records as a batch of magic 2. Raises KafkaError for a kept message without them."""
        return self

    def has_message_crc(self) -> bool:
        """Whether it is a kept message with the right checksum by the rule of its format."""
        return False

    def stamp(self, base_offset: int, leader_epoch: int) -> None:
        """Give the batch its place in the log, in this view and in the buffer."""
        # In one call, with the length that lies between them.
        length = self.size_bytes - LENGTH_END
        _put_place(self.buffer, self.position, base_offset, length, leader_epoch)
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch

    def amend(self, attributes: int, max_timestamp: int) -> None:
        """Set the attributes and the largest timestamp, in this view and in the buffer."""
        _put_int16(self.buffer, self.position + CRC_END, attributes)
        _put_int64(self.buffer, self.position + _MAX_TIMESTAMP_POSITION, max_timestamp)
        self.crc = refresh_crc(self.buffer, self.position)
        self.attributes, self.max_timestamp = attributes, max_timestamp

    def stamp_append_time(self, timestamp_ms: int) -> None:
        """Make all records appended at that time, in this view and in the buffer."""
        self.crc = stamp_append_time(self.buffer, self.position, timestamp_ms)
        self.attributes |= APPEND_TIME_BIT
        self.max_timestamp = timestamp_ms


def parse_batch(buffer: Buffer, position: int = 0) -> RecordBatch:
    """The batch that starts at a position; what follows it is not looked at.

    Raises KafkaError(CORRUPT_MESSAGE) if it is malformed or not all there, and
    KafkaError(UNSUPPORTED_FOR_MESSAGE_FORMAT) for message sets of magic 0 and 1. The checksum is
    not part of it: see ``check_crc``."""
    batch = parse_header(buffer, position)
    if batch.last_offset_delta < 0 or batch.record_count < 0:
        _reject(
            position,
            f"{batch.record_count} records, last offset delta {batch.last_offset_delta}",
        )
    return batch


def parse_header(buffer: Buffer, position: int = 0) -> RecordBatch:
    """As ``parse_batch``, but leaves negative counts for the caller to refuse."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    available = len(view) - position
    # The magic byte comes first: in the older formats other fields lie where ours do.
    if available <= MAGIC_POSITION or view[position + MAGIC_POSITION] != MAGIC:
        _reject_format(view, position)
    if available < HEADER_BYTES:
        _reject(position, f"{available} bytes are no batch header")
    batch = RecordBatch()
    batch.buffer = view
    batch.position = position
    (
        batch.base_offset,
        length,
        batch.leader_epoch,
        batch.magic,
        batch.crc,
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    ) = _unpack_header(view, position)
    batch.size_bytes = length + LENGTH_END
    if not HEADER_BYTES <= batch.size_bytes <= available:
        _reject(position, f"its size is {batch.size_bytes} with {available} bytes there")
    return batch


def _reject(position: int, reason: str) -> NoReturn:
    raise KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"malformed record batch at byte {position}: {reason}"
    )


def _reject_format(view: memoryview, position: int) -> NoReturn:
    available = len(view) - position
    if available <= MAGIC_POSITION:
        _reject(position, f"{available} bytes are too few to tell the format")
    magic = view[position + MAGIC_POSITION]
    if magic > MAGIC:
        _reject(position, f"there is no format {magic}")
    raise KafkaError(
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        f"message set of format {magic} at byte {position} where a record batch is wanted",
    )


def iterate_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """All batches from a position to the end of the buffer, checked as by ``parse_batch``.

    Raises KafkaError at the first that is malformed or incomplete, after the good ones."""
    view = memoryview(buffer)
    end = len(view)
    while position < end:
        batch = parse_batch(view, position)
        yield batch
        position += batch.size_bytes


def iterate_whole_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """As ``iterate_batches``, but stop in silence where the buffer's end cuts a batch in two.

    A fetch response of limited size may end so (KIP-74); consumers skip the torn piece."""
    view = memoryview(buffer)
    end = len(view)
    while end - position >= HEADER_BYTES:
        length = int.from_bytes(
            view[position + LENGTH_POSITION : position + LENGTH_END], signed=True
        )
        if view[position + MAGIC_POSITION] == MAGIC and position + LENGTH_END + length > end:
            return
        batch = parse_batch(view, position)
        yield batch
        position += batch.size_bytes


def check_crc(batch: RecordBatch) -> bool:
    """Whether the batch's bytes are the ones its maker checksummed."""
    start = batch.position
    crc = crc32c(batch.buffer[start + CRC_END : start + batch.size_bytes])
    return crc == batch.crc or batch.has_message_crc()


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch into the batch at a position; the checksum holds.

    The batch must have been parsed before."""
    _put_int64(buffer, position, base_offset)
    _put_int32(buffer, position + LENGTH_END, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> int:
    """Mark the batch at a position as appended at that time; return its new checksum.

    Readers then take the maximum timestamp for every record, so records stay untouched. The
    batch must have been parsed before."""
    view = memoryview(buffer)
    attributes = int.from_bytes(view[position + CRC_END : position + CRC_END + 2], signed=True)
    _put_int16(view, position + CRC_END, attributes | APPEND_TIME_BIT)
    _put_int64(view, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    return refresh_crc(view, position)


def refresh_crc(buffer: bytearray | memoryview, position: int) -> int:
    """Recompute the checksum of the batch at a position, store it and return it."""
    view = memoryview(buffer)
    length = int.from_bytes(view[position + LENGTH_POSITION : position + LENGTH_END], signed=True)
    end = position + LENGTH_END + length
    assert position + HEADER_BYTES <= end <= len(view), (position, length, len(view))
    crc = crc32c(view[position + CRC_END : end])
    _put_uint32(view, position + CRC_START, crc)
    return crc

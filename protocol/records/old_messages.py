"""Reading message sets of magic 0 and 1, what Kafka stored before record batches, and mixtures.

An entry is: int64 offset, int32 size, CRC-32 from magic to end, magic, attributes, timestamp (magic
1 only), key, value. A compressed set is the value of one wrapper entry; its inner offsets are
absolute in magic 0 and count from 0 in magic 1 (KIP-31, KIP-32). A segment that outlived an upgrade
holds all three formats one after the other. Sizes are claims, compared with the bytes there.
Reading only: nothing here makes these formats.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, TypeAlias

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import (
    APPEND_TIME_BIT,
    CODEC_BITS,
    LENGTH_END,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    RecordBatch,
    TimestampType,
    check_crc,
    parse_batch,
)
from ottla.protocol.records.compression import CODECS, OUTPUT_BYTES_MAX, Codec, decompress
from ottla.protocol.records.lz4_frames import with_right_header_checksum
from ottla.protocol.records.record import Record, read_records
from ottla.protocol.records.varint import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import Buffer

# Offset, size, checksum, magic, attributes: the same in both formats.
_HEAD = struct.Struct(">qiIbB")
_PLACE = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_NULL = -1
# An entry whose key and value are null, by magic.
ENTRY_BYTES_MIN = (
    _HEAD.size + 2 * _LENGTH.size,
    _HEAD.size + _TIMESTAMP.size + 2 * _LENGTH.size,
)


class OldMessage(NamedTuple):
    """One entry of magic 0 or 1, as ``parse_message`` found it: a record, or a wrapper of many.

    ``offset`` is that of the last record inside. ``timestamp`` is -1 in magic 0."""

    view: memoryview
    """The entry's own bytes, from its offset on."""
    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None

    @property
    def size_bytes(self) -> int:
        return len(self.view)

    @property
    def codec(self) -> Codec:
        """Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE) for what these formats never had."""
        number = self.attributes & CODEC_BITS
        if number >= Codec.ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"format {self.magic} has no codec number {number}",
            )
        return CODECS[number]

    @property
    def is_compressed(self) -> bool:
        """Whether it is a wrapper."""
        return self.attributes & CODEC_BITS != 0

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamp; magic 0 has none, and nothing to say by that bit."""
        if self.magic > 0 and self.attributes & APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME


LogEntry: TypeAlias = OldMessage | RecordBatch


def parse_message(buffer: Buffer, position: int = 0) -> OldMessage:
    """The entry of magic 0 or 1 that starts at a position; what follows it is not looked at.

    Raises KafkaError(CORRUPT_MESSAGE) if it is malformed, not all there or of another format. The
    checksum is not part of it: see ``check_message_crc``."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    magic = magic_at(view, position)
    if magic >= MAGIC:
        raise _malformed(position, f"format {magic} is none of message sets")
    available = len(view) - position
    if available < ENTRY_BYTES_MIN[magic]:
        raise _malformed(position, f"{available} bytes are no entry of format {magic}")
    offset, length, crc, _, attributes = _HEAD.unpack_from(view, position)
    size_bytes = LENGTH_END + length
    if not ENTRY_BYTES_MIN[magic] <= size_bytes <= available:
        raise _malformed(position, f"its size is {size_bytes} with {available} bytes there")
    message = view[position : position + size_bytes]
    timestamp, at = NO_TIMESTAMP, _HEAD.size
    if magic > 0:
        (timestamp,) = _TIMESTAMP.unpack_from(message, at)
        at += _TIMESTAMP.size
    key, at = _take_field(message, at, position)
    value, at = _take_field(message, at, position)
    if at != size_bytes:
        raise _malformed(position, f"{size_bytes - at} bytes follow its value")
    return OldMessage(message, offset, crc, magic, attributes, timestamp, key, value)


def magic_at(view: memoryview, position: int) -> int:
    """The format of the entry at a position, read before any field that depends on it.

    Raises KafkaError(CORRUPT_MESSAGE) if there are too few bytes to tell."""
    if len(view) - position <= MAGIC_POSITION:
        raise _malformed(position, f"{len(view) - position} bytes are too few to tell the format")
    return view[position + MAGIC_POSITION]


def _take_field(message: memoryview, at: int, position: int) -> tuple[memoryview | None, int]:
    """The nullable bytes at a place of an entry, and the place after them."""
    if len(message) - at < _LENGTH.size:
        raise _malformed(position, "it ends before the size of its value")
    (size,) = _LENGTH.unpack_from(message, at)
    at += _LENGTH.size
    if size == _NULL:
        return None, at
    if not 0 <= size <= len(message) - at:
        raise _malformed(position, f"a field claims {size} of {len(message) - at} bytes")
    return message[at : at + size], at + size


def check_message_crc(message: OldMessage) -> bool:
    """Whether the entry's bytes are the ones its maker checksummed; the offset is not in it."""
    return zlib.crc32(message.view[MAGIC_POSITION:]) == message.crc


def read_messages(
    message: OldMessage, output_limit_bytes: int = OUTPUT_BYTES_MAX
) -> Iterator[Record]:
    """The record that an entry is, or in order those that it wraps.

    The entry's own checksum is the caller's business, those inside are checked. Raises KafkaError
    while iterating: CORRUPT_MESSAGE when wrapper and contents do not fit, and what ``decompress``
    raises."""
    if message.codec is Codec.NONE:
        yield _record(message, message.offset, message.timestamp)
        return
    data = _unwrapped(message, output_limit_bytes)
    base_offset = _base_offset(message, data)
    is_append_time = message.timestamp_type is TimestampType.LOG_APPEND_TIME
    position = 0
    while position < len(data):
        inner = parse_message(data, position)
        if inner.magic != message.magic or inner.is_compressed:
            raise _contradicts(message, "it wraps another format or another wrapper")
        if not check_message_crc(inner):
            raise _contradicts(message, f"wrong checksum of the message at its byte {position}")
        offset = base_offset + inner.offset
        if not INT64_MIN <= offset <= INT64_MAX:
            raise _contradicts(message, f"it wraps a message of offset {offset}")
        # The broker stamps the wrapper alone: its append time holds for everything inside.
        yield _record(inner, offset, message.timestamp if is_append_time else inner.timestamp)
        position += inner.size_bytes


def _record(message: OldMessage, offset: int, timestamp: int) -> Record:
    key, value = message.key, message.value
    return Record(
        offset,
        timestamp,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
    )


def _unwrapped(message: OldMessage, output_limit_bytes: int) -> memoryview:
    """The message set inside a wrapper, which holds at least one entry."""
    value = message.value
    if value is None:
        raise _contradicts(message, "it is compressed and null")
    data: Buffer = value
    if message.magic == 0 and message.codec is Codec.LZ4:
        data = with_right_header_checksum(value)
    inner = decompress(message.codec, data, output_limit_bytes)
    if not inner:
        raise _contradicts(message, "it wraps nothing")
    return memoryview(inner)


def _base_offset(message: OldMessage, data: memoryview) -> int:
    """What is to be added to the offsets inside a wrapper."""
    if message.magic == 0:
        return 0
    position, last_offset = 0, 0
    # By sizes alone: the loop that reads the entries checks them.
    while len(data) - position >= _PLACE.size:
        last_offset, length = _PLACE.unpack_from(data, position)
        if length < 0:
            raise _contradicts(message, f"a message at its byte {position} has size {length}")
        position += LENGTH_END + length
    if message.offset == 0:
        # Early librdkafka leaves the wrapper's offset 0 in what it produces.
        return 0
    if message.offset < last_offset:
        raise _contradicts(message, f"its last message has offset {last_offset}")
    return message.offset - last_offset


class CoveredOffsets(NamedTuple):
    """The offsets of the messages in an entry, and how many there are."""

    first_offset: int
    last_offset: int
    message_count: int


def span_of(message: OldMessage, output_limit_bytes: int = OUTPUT_BYTES_MAX) -> CoveredOffsets:
    """What offsets an entry covers; a wrapper is decompressed for that, and its sizes are read.

    Raises KafkaError as ``read_messages`` does."""
    if message.codec is Codec.NONE:
        return CoveredOffsets(message.offset, message.offset, 1)
    data = _unwrapped(message, output_limit_bytes)
    base_offset = _base_offset(message, data)
    position = count = first = last = 0
    while len(data) - position >= _PLACE.size:
        last, length = _PLACE.unpack_from(data, position)
        first = last if count == 0 else first
        position += LENGTH_END + length
        count += 1
    if position != len(data) or not 0 <= first <= last:
        raise _contradicts(message, "the sizes or offsets inside are wrong")
    return CoveredOffsets(base_offset + first, base_offset + last, count)


def iterate_entries(buffer: Buffer, position: int = 0) -> Iterator[LogEntry]:
    """All entries from a position to the end of the buffer, of whatever format each is.

    Checked as by ``parse_message`` and ``parse_batch``. Raises KafkaError(CORRUPT_MESSAGE) at the
    first that is malformed or incomplete, after the good ones."""
    view = memoryview(buffer)
    while position < len(view):
        # Bytes 12 to 15 are a checksum before magic 2 and a leader epoch from then on.
        entry: LogEntry = (
            parse_message(view, position)
            if magic_at(view, position) < MAGIC
            else parse_batch(view, position)
        )
        yield entry
        position += entry.size_bytes


def read_any(buffer: Buffer, output_limit_bytes: int = OUTPUT_BYTES_MAX) -> Iterator[Record]:
    """The records of a buffer of any mixture of formats, in order; checksums are checked.

    Control batches yield their markers too, see control.py. The limit is for each entry. Raises
    KafkaError as ``iterate_entries``, ``read_messages`` and ``read_records`` do, after the good
    records, and CORRUPT_MESSAGE for a wrong checksum."""
    for entry in iterate_entries(buffer):
        if not is_sound(entry):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"wrong checksum of the entry at offset {_place(entry)}"
            )
        yield from read_entry(entry, output_limit_bytes)


def is_sound(entry: LogEntry) -> bool:
    """Whether an entry's checksum is right, by the rule of its format."""
    return check_message_crc(entry) if isinstance(entry, OldMessage) else check_crc(entry)


def read_entry(entry: LogEntry, output_limit_bytes: int = OUTPUT_BYTES_MAX) -> Iterator[Record]:
    """The records of one entry of any format."""
    if isinstance(entry, OldMessage):
        return read_messages(entry, output_limit_bytes)
    return read_records(entry, output_limit_bytes)


def _place(entry: LogEntry) -> int:
    return entry.offset if isinstance(entry, OldMessage) else entry.base_offset


def _malformed(position: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"malformed message at byte {position}: {reason}")


def _contradicts(message: OldMessage, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"compressed message at offset {message.offset}: {reason}"
    )

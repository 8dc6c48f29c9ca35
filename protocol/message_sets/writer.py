"""Message sets to bytes, in formats 0 and 1 (KIP-31, KIP-32). Pure.

An entry is: int64 offset, int32 size, CRC-32 from magic to end, magic, attributes, timestamp
(format 1 only), key, value. A set is entries back to back. A wrapper is an entry whose value is a
compressed set; the offsets inside are absolute in format 0 and count from the first one in format
1.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ottla.protocol.records.batch import APPEND_TIME_BIT, TimestampType
from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.records.lz4_frames import with_old_header_checksum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.record import Record

_PLACE = struct.Struct(">qiI")
# Magic, attributes and, from format 1 on, the timestamp.
_pack_head = struct.Struct(">BBq").pack
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_CRC_BYTES = 4

Form = tuple[int, int]
"""Magic and attributes of an entry."""


def message(
    form: Form, offset: int, timestamp: int, key: Buffer | None, value: Buffer | None
) -> bytes:
    """One entry. Format 0 has no place for the timestamp, which is left out."""
    magic, attributes = form
    head = _pack_head(magic, attributes, timestamp) if magic else bytes(form)
    body = b"".join((head, _field(key), _field(value)))
    return _PLACE.pack(offset, _CRC_BYTES + len(body), zlib.crc32(body)) + body


def _field(content: Buffer | None) -> bytes:
    return _NULL if content is None else _LENGTH.pack(len(content)) + content


def form_of(magic: int, codec: Codec, timestamp_type: TimestampType) -> Form:
    """Bits 0 to 2 are the codec; bit 3 says from format 1 on that the broker set the timestamp."""
    if magic and timestamp_type is TimestampType.LOG_APPEND_TIME:
        return magic, codec | APPEND_TIME_BIT
    return magic, int(codec)


def wrapper(
    magic: int, records: Sequence[Record], codec: Codec, timestamp_type: TimestampType
) -> bytes:
    """The records as one compressed entry: at least one record, at ascending offsets.

    Its offset is that of the last record, its timestamp the largest one. Headers are left out:
    these formats have none. Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE)."""
    inner = form_of(magic, Codec.NONE, timestamp_type)
    base_offset = records[0].offset
    content = wrapped(inner, records, base_offset)
    end = records[-1].offset, max(one.timestamp for one in records)
    return enclosed(magic, end, content, (codec, timestamp_type))


def wrapped(form: Form, records: Sequence[Record], base_offset: int) -> bytes:
    """Records as they stand in a wrapper whose first record has that offset; perhaps a part."""
    start = base_offset if form[0] else 0
    return b"".join(
        message(form, one.offset - start, one.timestamp, one.key, one.value) for one in records
    )


def enclosed(
    magic: int,
    end: tuple[int, int],
    content: Buffer,
    kind: tuple[Codec, TimestampType],
) -> bytes:
    """The wrapper of records, given what they are in it. ``end``: the offset of the last record
    and the largest timestamp."""
    codec, timestamp_type = kind
    value = compress(codec, content)
    if magic == 0 and codec is Codec.LZ4:
        value = with_old_header_checksum(value)
    return message(form_of(magic, codec, timestamp_type), *end, None, value)

"""Records to batch bytes.

A batch is made in one go from what the codec made of its records: compression, header, checksum
over all of it but the first 21 bytes, in place. See codec.py for the records themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import (
    APPEND_TIME_BIT,
    CODEC_BITS,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    RecordBatch,
    put_attributes,
    put_length,
    refresh_crc,
)
from ottla.protocol.records.codec import encode_entries
from ottla.protocol.records.compression import OUTPUT_BYTES_MAX, Codec, compress
from ottla.protocol.records.record import record_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.records.record import Encoded, Entry


class BatchOptions(NamedTuple):
    """Everything about a batch that is not its records."""

    codec: Codec = Codec.NONE
    compression_level: int | None = None
    base_offset: int = 0
    leader_epoch: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    append_time_ms: int | None = None

    @property
    def attributes(self) -> int:
        return (
            self.codec
            | (APPEND_TIME_BIT if self.append_time_ms is not None else 0)
            | (TRANSACTIONAL_BIT if self.is_transactional else 0)
            | (CONTROL_BIT if self.is_control else 0)
        )


PLAIN = BatchOptions()


def encode_batch(entries: Iterable[Entry], options: BatchOptions = PLAIN) -> bytes:
    """One batch of the entries, at consecutive offsets from the options' base offset.

    Null and empty keys and values, and repeated header keys, are all legal. No entries make an
    empty batch, which no producer may send. Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE)."""
    return bytes(finish_batch(encode_entries(list(entries)), options))


def finish_batch(encoded: Encoded, options: BatchOptions = PLAIN) -> bytearray:
    """The batch of encoded records, which are used up: what the codec made, compressed, behind a
    header whose checksum covers both. Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE)."""
    data = encoded.data
    if options.codec is not Codec.NONE:
        records = memoryview(data)[HEADER_BYTES:]
        data = bytearray(HEADER_BYTES)
        data += compress(options.codec, records, options.compression_level)
    appended = options.append_time_ms
    HEADER.pack_into(
        data,
        0,
        options.base_offset,
        len(data) - LENGTH_END,
        options.leader_epoch,
        MAGIC,
        0,
        options.attributes,
        # -1 records have no last one, yet Kafka's readers want the delta of an empty batch >= 0.
        max(encoded.record_count - 1, 0),
        encoded.base_timestamp,
        encoded.max_timestamp if appended is None else appended,
        options.producer_id,
        options.producer_epoch,
        options.base_sequence,
        encoded.record_count,
    )
    refresh_crc(data, 0)
    return data


def recompress(
    batch: RecordBatch, codec: Codec, level: int | None = None, limit_bytes: int = OUTPUT_BYTES_MAX
) -> bytes:
    """The same batch, record for record, under another codec (``compression.type``).

    Only codec bits, length and checksum of the header change. Raises as ``decompress`` does."""
    data = compress(codec, record_bytes(batch, limit_bytes), level)
    header = bytearray(batch.view[:HEADER_BYTES])
    put_length(header, HEADER_BYTES - LENGTH_END + len(data))
    put_attributes(header, batch.attributes & ~CODEC_BITS | codec)
    header += data
    refresh_crc(header, 0)
    return bytes(header)

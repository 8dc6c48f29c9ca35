"""Batches that have lost records: the bytes, under the header fields that compaction must keep.

Base offset, last offset delta, sequence, producer and leader epoch stay (FMT-32). The base
timestamp is the first survivor's (FMT-34), or the delete horizon where there is one; the times of
records are rewritten when it changes. The checksum is always computed again. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.records.batch import (
    APPEND_TIME_BIT,
    CODEC_BITS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    refresh_crc,
)
from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.records.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.broker.cleaner.scan import RecordSpan
    from ottla.protocol.records.batch import RecordBatch


def rewrite(
    batch: RecordBatch, data: bytes, spans: Sequence[RecordSpan], horizon_ms: int | None
) -> bytes:
    """The batch with only those of its records, which there are; ``data`` is uncompressed.

    ``horizon_ms`` is set if given; a horizon that the batch has already stays. Raises
    KafkaError(UNSUPPORTED_COMPRESSION_TYPE)."""
    assert spans
    attributes = batch.attributes
    base_timestamp, max_timestamp = batch.base_timestamp, batch.max_timestamp
    if horizon_ms is not None:
        assert not batch.has_delete_horizon
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = horizon_ms
    elif not batch.has_delete_horizon:
        base_timestamp += spans[0].timestamp_delta
    if not attributes & APPEND_TIME_BIT:
        latest_delta = max(span.timestamp_delta for span in spans)
        max_timestamp = batch.base_timestamp + latest_delta
    shift = batch.base_timestamp - base_timestamp
    payload = b"".join(_shifted(data, spans, shift) if shift else _runs(data, spans))
    codec = batch.codec
    if codec is not Codec.NONE:
        payload = compress(codec, payload)
    return _assemble(batch, attributes, (base_timestamp, max_timestamp), (len(spans), payload))


def empty_batch(batch: RecordBatch) -> bytes:
    """The batch without records: what remembers its producer's last sequence (FMT-33)."""
    kept = APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
    attributes = batch.attributes & kept
    return _assemble(batch, attributes, (NO_TIMESTAMP, batch.max_timestamp), (0, b""))


def placeholder(batch: RecordBatch) -> bytes:
    """An empty batch without a producer, which only covers offsets that were removed."""
    assert batch.last_offset_delta >= 0, "it covers the offset that it begins at"
    header = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        header,
        0,
        batch.base_offset,
        HEADER_BYTES - LENGTH_END,
        batch.leader_epoch,
        MAGIC,
        0,
        batch.attributes & APPEND_TIME_BIT,
        batch.last_offset_delta,
        NO_TIMESTAMP,
        batch.max_timestamp,
        NO_PRODUCER_ID,
        -1,
        NO_SEQUENCE,
        0,
    )
    refresh_crc(header, 0)
    return bytes(header)


def _runs(data: bytes, spans: Sequence[RecordSpan]) -> Iterator[bytes]:
    """The records as they are, neighbours in one piece."""
    assert spans, "a batch without records is empty_batch's"
    start, end = spans[0].start, spans[0].start
    for span in spans:
        if span.start != end:
            yield data[start:end]
            start = span.start
        end = span.end
    yield data[start:end]


def _shifted(data: bytes, spans: Sequence[RecordSpan], shift: int) -> Iterator[bytes]:
    """The records with other timestamp deltas, and lengths that fit."""
    for span in spans:
        delta = encode_varint(span.timestamp_delta + shift)
        rest = data[span.time_end : span.end]
        yield encode_varint(1 + len(delta) + len(rest))
        yield data[span.body : span.body + 1]
        yield delta
        yield rest


def _assemble(
    batch: RecordBatch, attributes: int, timestamps: tuple[int, int], records: tuple[int, bytes]
) -> bytes:
    count, payload = records
    assert 0 <= count <= batch.record_count
    content = bytearray(HEADER_BYTES)
    assert attributes & CODEC_BITS == 0 or payload
    HEADER.pack_into(
        content,
        0,
        batch.base_offset,
        HEADER_BYTES - LENGTH_END + len(payload),
        batch.leader_epoch,
        MAGIC,
        0,
        attributes,
        batch.last_offset_delta,
        *timestamps,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    content += payload
    refresh_crc(content, 0)
    return bytes(content)

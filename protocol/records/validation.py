"""Looking inside a produced batch before it is acknowledged.

A batch whose header is right may still hold records that stop every consumer (hazard S-31): wrong
counts, offsets that do not follow one another, lengths that lie, data that no decompressor takes.
What is compressed is looked at piece by piece and never held as a whole (hazard N-04).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.compression import OUTPUT_BYTES_MAX, Codec, decompress_pieces
from ottla.protocol.records.record_stream import RecordStream
from ottla.protocol.records.survey import survey_records
from ottla.protocol.records.varint import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch


class RecordsSummary(NamedTuple):
    """What the records of a valid batch have to say about themselves."""

    min_timestamp: int
    max_timestamp: int
    first_keyless: int
    """Place in the batch of the first record without a key, -1 if all have one."""


class RecordFacts(NamedTuple):
    """What one record of a valid batch says about itself."""

    timestamp: int
    has_key: bool


def validate_records(
    batch: RecordBatch, output_limit_bytes: int = OUTPUT_BYTES_MAX
) -> RecordsSummary:
    """Check every record of a batch as a producer makes it: offsets without gaps, count exact.

    Raises KafkaError: INVALID_RECORD for records that are malformed or do not fit their batch,
    CORRUPT_MESSAGE for what does not decompress, MESSAGE_TOO_LARGE beyond the limit (smaller
    batches then succeed), UNSUPPORTED_COMPRESSION_TYPE."""
    count, base_timestamp = batch.record_count, batch.base_timestamp
    _check_count(batch)
    stream = RecordStream(_pieces(batch, output_limit_bytes), count)
    earliest, latest, keyless = INT64_MAX, INT64_MIN, -1
    while stream.index < count:
        stream.index, stream.position, low, high, first = survey_records(
            stream.piece, stream.position, stream.index, count, base_timestamp
        )
        if first >= 0 > keyless:
            keyless = first
        earliest, latest = min(earliest, low), max(latest, high)
        if stream.index < count:
            index = stream.index
            timestamp, has_key = stream.read(base_timestamp)
            earliest, latest = min(earliest, timestamp), max(latest, timestamp)
            if keyless < 0 and not has_key:
                keyless = index
    stream.expect_end()
    return RecordsSummary(earliest, latest, keyless)


def record_facts(
    batch: RecordBatch, output_limit_bytes: int = OUTPUT_BYTES_MAX
) -> Iterator[RecordFacts]:
    """Record by record, slowly: to say which ones are the reason of a refusal. Raises as
    ``validate_records`` does, while iterating."""
    stream = RecordStream(_pieces(batch, output_limit_bytes), batch.record_count)
    for _ in range(batch.record_count):
        yield RecordFacts(*stream.read(batch.base_timestamp))


def _check_count(batch: RecordBatch) -> None:
    if batch.record_count != batch.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{batch.record_count} records with a last offset delta of {batch.last_offset_delta}",
        )


def _pieces(batch: RecordBatch, output_limit_bytes: int) -> Iterator[Buffer]:
    codec = batch.codec
    if codec is Codec.NONE:
        return iter((batch.payload,))
    return decompress_pieces(codec, batch.payload, output_limit_bytes)

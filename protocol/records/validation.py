"""Looking inside a produced batch, for the cases in which the broker must.

A batch whose header is right may still hold records that stop every consumer (hazard S-31): wrong
counts, offsets that do not follow one another, lengths that lie. Kafka's own broker rejects those
as INVALID_RECORD, which producers do not retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.compression import OUTPUT_BYTES_MAX
from ottla.protocol.records.record import read_records
from ottla.protocol.records.varint import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from ottla.protocol.records.batch import RecordBatch


class RecordsSummary(NamedTuple):
    """What the records of a valid batch have to say about themselves."""

    min_timestamp: int
    max_timestamp: int
    max_timestamp_offset_delta: int
    """The first record that carries ``max_timestamp``."""
    keyless_indexes: tuple[int, ...]
    """Places in the batch of records without a key, which compacted topics refuse."""


def validate_records(
    batch: RecordBatch, output_limit_bytes: int = OUTPUT_BYTES_MAX
) -> RecordsSummary:
    """Read every record of a batch as a producer makes it: offsets without gaps, count exact.

    Raises KafkaError: INVALID_RECORD for records that do not fit their batch or cannot be read,
    MESSAGE_TOO_LARGE beyond the limit (smaller batches then succeed),
    UNSUPPORTED_COMPRESSION_TYPE."""
    if batch.record_count != batch.last_offset_delta + 1:
        raise _invalid(
            f"{batch.record_count} records with a last offset delta of {batch.last_offset_delta}"
        )
    try:
        return _summarize(batch, output_limit_bytes)
    except KafkaError as error:
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            # The checksum was right, so sending the same bytes again cannot help.
            raise _invalid(error.message) from error
        raise


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, reason)


def _summarize(batch: RecordBatch, output_limit_bytes: int) -> RecordsSummary:
    min_timestamp, max_timestamp, max_timestamp_index = INT64_MAX, INT64_MIN, -1
    keyless = []
    for index, record in enumerate(read_records(batch, output_limit_bytes)):
        if record.offset - batch.base_offset != index:
            raise _invalid(f"record {index} says offset {record.offset - batch.base_offset}")
        timestamp = record.timestamp
        min_timestamp = min(min_timestamp, timestamp)
        if timestamp > max_timestamp:
            max_timestamp, max_timestamp_index = timestamp, index
        if record.key is None:
            keyless.append(index)
    if min_timestamp < INT64_MIN or max_timestamp > INT64_MAX:
        raise _invalid("a timestamp does not fit 64 bits")
    return RecordsSummary(min_timestamp, max_timestamp, max_timestamp_index, tuple(keyless))

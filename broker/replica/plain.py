"""The short verdict on the batch that nearly every producer sends. HOT: once per request.

It accepts only batches that append.py and inside.py together would accept unchanged; they judge
every batch that it does not accept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.inside import INLINE_BYTES_MAX, INLINE_OUTPUT_BYTES_MAX
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import (
    CRC_END,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    RecordBatch,
    parse_batch,
)
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.survey import survey_records
from ottla.protocol.records.validation import validate_records

if TYPE_CHECKING:
    from ottla.broker.replica.append import AppendRules
    from ottla.protocol.ports import Buffer

# Looked up once: reading a member of an enumeration costs as much as a call.
_ZSTD = Codec.ZSTD


def judge_plain(records: Buffer, rules: AppendRules, wall_ms: int) -> RecordBatch | None:
    """The one batch in the records of a produce request of version 7 or later, if it may be
    written as it came and belongs to no transaction.

    None: ask ``judge_produced``. What is compressed is looked into here as long as that is quicker
    than to hand it to a worker. HOT."""
    try:
        batch = parse_batch(records)
    except KafkaError:
        return None
    size_bytes = batch.size_bytes
    count = batch.record_count
    attributes = batch.attributes
    latest_ms = wall_ms + rules.timestamp_after_max_ms
    validates = rules.validates
    if (
        size_bytes != len(records)
        or size_bytes > rules.plain_bytes_max
        or batch.base_offset != 0
        or not 0 < count == batch.last_offset_delta + 1
        or not 0 <= attributes <= _ZSTD
        or (attributes and validates and size_bytes > INLINE_BYTES_MAX)
        or not NO_TIMESTAMP <= batch.max_timestamp <= latest_ms
        or not NO_TIMESTAMP <= batch.base_timestamp <= latest_ms
        or crc32c(batch.buffer[CRC_END:]) != batch.crc
    ):
        return None
    if batch.producer_id != NO_PRODUCER_ID and (
        batch.producer_id < 0 or batch.producer_epoch < 0 or batch.base_sequence < 0
    ):
        return None
    if validates:
        if attributes:
            return batch if _holds_what_it_says(batch) else None
        index, end, _, latest, _ = survey_records(
            batch.buffer, HEADER_BYTES, 0, count, batch.base_timestamp
        )
        if index != count or end != size_bytes or latest != batch.max_timestamp:
            return None
    return batch


def _holds_what_it_says(batch: RecordBatch) -> bool:
    try:
        summary = validate_records(batch, INLINE_OUTPUT_BYTES_MAX)
    except KafkaError:
        return False
    return summary.max_timestamp == batch.max_timestamp

"""Judges the records inside a produced batch, and corrects its header.

Pure work on bytes without waits, on the event loop if it is short and in a worker if not. One bad
record refuses the whole batch (KIP-467). As in Kafka, a wrong largest timestamp in the header is
repaired, and bits that only brokers may set are cleared. Offsets other than 0, 1, 2, ... are
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.append import (
    BROKERS_BITS,
    AppendPlan,
    AppendRules,
    ReadReason,
    is_sound,
    may_be_out_of_range,
    out_of_range,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import APPEND_TIME_BIT, CODEC_BITS, parse_batch
from ottla.protocol.records.builder import recompress
from ottla.protocol.records.validation import RecordsSummary, record_facts, validate_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.records.batch import RecordBatch

# A hop to a worker takes 33 to 45 microseconds, for which the connection waits. JSON batches of
# this size take 15 (lz4), 24 (snappy), 45 (zstd) and 150 (gzip); of 64 KiB 50, 90, 130 and 500.
INLINE_BYTES_MAX = 16 * 1024
# A small batch that decompresses to more than this goes to a worker after all.
INLINE_OUTPUT_BYTES_MAX = 256 * 1024
# At higher levels these bytes take up to 13 ms to compress (zstd 19), or 580 (zstd 22).
INLINE_LEVEL_MAX = 3
# Limits of decompression: this many max.message.bytes or batch sizes, and a total.
_OUTPUT_TOPICS_LIMIT_MAX = 16
_OUTPUT_RATIO_MAX = 64
_OUTPUT_BYTES_MAX = 256 * 1024 * 1024
# Bounds the answer for a batch with very many bad records.
_RECORD_ERRORS_MAX = 1_000

RecordErrors = tuple[tuple[int, str], ...]
"""Index within the batch and reason."""

_NONE = ErrorCode.NONE
_NOT = ReadReason.NOT
_FORM = ReadReason.FORM
_CHANGING_BITS = CODEC_BITS | BROKERS_BITS


class RecordChecks(NamedTuple):
    """The plan, and the reasons why single records were refused."""

    plan: AppendPlan
    record_errors: RecordErrors = ()


def look_here(plan: AppendPlan, rules: AppendRules, wall_ms: int) -> RecordChecks | None:
    """Run the plan's checks if that is short work; None if a worker must do it.

    A plan without checks is returned unchanged."""
    batch = plan.batch
    if batch is None or plan.look is _NOT:
        return RecordChecks(plan)
    is_as_it_came = plan.recompress is None and not batch.attributes & _CHANGING_BITS
    if is_as_it_came and is_sound(batch, rules, wall_ms):
        return RecordChecks(plan._replace(look=_NOT))
    level = rules.compression_level
    is_slow = plan.recompress is not None and level is not None and level > INLINE_LEVEL_MAX
    if is_slow or batch.size_bytes > INLINE_BYTES_MAX:
        return None
    try:
        return _look(plan, batch, rules, wall_ms, INLINE_OUTPUT_BYTES_MAX)
    except KafkaError as error:
        return None if error.code is ErrorCode.MESSAGE_TOO_LARGE else _refusal(error)


def compressed(plan: AppendPlan, rules: AppendRules, wall_ms: int) -> RecordBatch | None:
    """The plan's batch if it is valid and checking it was short work; otherwise None.

    The batch of a transaction is not decompressed here, since its caller cannot write it."""
    if plan.look is not _FORM or not rules.is_plain:
        return None
    if plan.batch is None or plan.batch.is_transactional:
        return None
    inside = look_here(plan, rules, wall_ms)
    return None if inside is None else inside.plan.batch


def look_at_length(plan: AppendPlan, rules: AppendRules, wall_ms: int) -> RecordChecks:
    """Run the plan's checks, however long they take."""
    batch = plan.batch
    if batch is None or plan.look is _NOT:
        return RecordChecks(plan)
    limit_bytes = output_limit_bytes(rules, batch.size_bytes)
    try:
        return _look(plan, batch, rules, wall_ms, limit_bytes)
    except KafkaError as error:
        return _refusal(error)


def output_limit_bytes(rules: AppendRules, size_bytes: int) -> int:
    """To how much a batch of that size may decompress."""
    floor = rules.max_message_bytes * _OUTPUT_TOPICS_LIMIT_MAX
    return min(_OUTPUT_BYTES_MAX, max(floor, size_bytes * _OUTPUT_RATIO_MAX))


def _refusal(error: KafkaError) -> RecordChecks:
    code = error.code
    if code is ErrorCode.CORRUPT_MESSAGE:
        # The checksum was right, so the producer built data that does not decompress, and a retry
        # cannot help. Kafka answers UNKNOWN_SERVER_ERROR; clients treat both codes as final, but
        # only this one means that the batch is not stored, and has a reason.
        return RecordChecks(AppendPlan(ErrorCode.INVALID_RECORD, error.message, is_told=True))
    return RecordChecks(AppendPlan(code, error.message))


def _look(
    plan: AppendPlan, batch: RecordBatch, rules: AppendRules, wall_ms: int, limit_bytes: int
) -> RecordChecks:
    summary = validate_records(batch, limit_bytes)
    if _may_be_refused(batch, summary, rules, wall_ms):
        inside = _judge_records(batch, rules, wall_ms, limit_bytes)
        if inside is not None:
            return inside
    _put_right(batch, summary, rules)
    if plan.recompress is not None:
        # In a new buffer: the received one belongs to the connection.
        rewritten = bytearray(
            recompress(batch, plan.recompress, rules.compression_level, limit_bytes)
        )
        if len(rewritten) > min(rules.max_message_bytes, rules.segment_bytes):
            message = f"the batch has {len(rewritten)} bytes as {plan.recompress.name.lower()}"
            return RecordChecks(AppendPlan(ErrorCode.MESSAGE_TOO_LARGE, message))
        parsed = parse_batch(memoryview(rewritten))
        # A retry of the producer is recognised by these fields.
        assert (parsed.producer_id, parsed.base_sequence) == (
            batch.producer_id,
            batch.base_sequence,
        )
        assert parsed.record_count == batch.record_count
        return RecordChecks(plan._replace(batch=parsed, look=_NOT))
    return RecordChecks(plan._replace(look=_NOT))


def _put_right(batch: RecordBatch, summary: RecordsSummary, rules: AppendRules) -> None:
    attributes, latest = batch.attributes & ~BROKERS_BITS, batch.max_timestamp
    if not rules.uses_append_time:
        latest = summary.max_timestamp
    if attributes != batch.attributes or latest != batch.max_timestamp:
        batch.amend(attributes, latest)


def _may_be_refused(
    batch: RecordBatch, summary: RecordsSummary, rules: AppendRules, wall_ms: int
) -> bool:
    if rules.is_compacted and summary.first_keyless >= 0:
        return True
    if rules.uses_append_time:
        return batch.attributes & APPEND_TIME_BIT != 0
    return may_be_out_of_range(summary.min_timestamp, summary.max_timestamp, rules, wall_ms)


def _judge_records(
    batch: RecordBatch, rules: AppendRules, wall_ms: int, limit_bytes: int
) -> RecordChecks | None:
    """Refuse the batch if it has bad records.

    A wrong timestamp determines the error code even if other records have other faults."""
    error = _NONE
    faults: list[tuple[int, str]] = []
    for index, (code, reason) in _faults(batch, rules, wall_ms, limit_bytes):
        if error is not ErrorCode.INVALID_TIMESTAMP:
            error = code
        if len(faults) < _RECORD_ERRORS_MAX:
            faults.append((index, reason))
    if error is _NONE:
        return None
    index, reason = faults[0]
    message = f"record {index}: {reason}"
    if len(faults) > 1:
        message = f"{len(faults)} records of the batch are refused, the first is {message}"
    return RecordChecks(AppendPlan(error, message, is_told=True), tuple(faults))


def _faults(
    batch: RecordBatch, rules: AppendRules, wall_ms: int, limit_bytes: int
) -> Iterator[tuple[int, tuple[ErrorCode, str]]]:
    for index, fact in enumerate(record_facts(batch, limit_bytes)):
        if rules.is_compacted and not fact.has_key:
            yield index, (ErrorCode.INVALID_RECORD, "a compacted topic needs records with keys")
        elif not rules.uses_append_time:
            reason = out_of_range(fact.timestamp, rules, wall_ms)
            if reason is not None:
                yield index, (ErrorCode.INVALID_TIMESTAMP, reason)
        elif batch.attributes & APPEND_TIME_BIT:
            yield index, (ErrorCode.INVALID_TIMESTAMP, "only the broker sets append times")

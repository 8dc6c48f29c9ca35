"""Looks into produced batches where a header is not enough, and rewrites them where asked to.

Needed for compacted topics, a ``compression.type`` other than the producer's, append times with a
codec, and limits on old timestamps; never on the usual path. Large batches are handed to a worker:
decompressing them here would stop every connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.append import AppendPlan, AppendRules, Look, judge_inside
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import RecordBatch, parse_batch
from ottla.protocol.records.builder import recompress
from ottla.protocol.records.validation import validate_records

if TYPE_CHECKING:
    from ottla.protocol.ports import Offload

# Below this a hop to a worker costs more than the work (measured: 33-45 microseconds a hop).
INLINE_BYTES_MAX = 16 * 1024
OUTPUT_RATIO_MAX = 64
OUTPUT_BYTES_MAX = 256 * 1024 * 1024


async def look_inside(
    plan: AppendPlan, rules: AppendRules, wall_ms: int, offload: Offload
) -> tuple[AppendPlan, tuple[tuple[int, str], ...]]:
    """Carry out what the plan asks for; the plan to write by, and errors of single records."""
    batch = plan.batch
    if plan.look is Look.NOT or batch is None or plan.error != ErrorCode.NONE:
        return plan, ()
    if batch.size_bytes <= INLINE_BYTES_MAX:
        return _look(plan, batch, rules, wall_ms)
    return await offload.run(_look, plan, batch, rules, wall_ms)


def _look(
    plan: AppendPlan, batch: RecordBatch, rules: AppendRules, wall_ms: int
) -> tuple[AppendPlan, tuple[tuple[int, str], ...]]:
    limit = min(OUTPUT_BYTES_MAX, max(rules.max_message_bytes, batch.size_bytes * OUTPUT_RATIO_MAX))
    try:
        summary = validate_records(batch, limit)
        verdict = judge_inside(summary, rules, wall_ms)
        if verdict.error != ErrorCode.NONE:
            return AppendPlan(verdict.error, verdict.message), verdict.record_errors
        if plan.recompress is not None:
            # In a buffer of its own: the received one belongs to the connection.
            rewritten = memoryview(bytearray(recompress(batch, plan.recompress, None, limit)))
            return plan._replace(batch=parse_batch(rewritten), look=Look.NOT), ()
    except KafkaError as error:
        return AppendPlan(error.code, error.message), ()
    return plan._replace(look=Look.NOT), ()

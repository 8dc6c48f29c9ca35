"""Produce 0-2: message sets of formats 0 and 1, which are stored as record batches or kept.

0 and 1 are sent with format 0, 2 with format 1; any format is taken, as in Kafka. A set becomes one
batch (raising.py), which then goes the ordinary way: limits, timestamps, keys, codec of the topic.
A set without a whole message is answered without an append. A topic with
``ottla.keep.message.format`` keeps messages of format 1 as they came (kept_sets.py).
"""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.context import Paused
from ottla.broker.handlers.appends import refusal_of
from ottla.broker.handlers.data import produce
from ottla.broker.log.admission import admit_messages
from ottla.broker.replica.append import AppendPlan
from ottla.broker.replica.kept_sets import kept_set
from ottla.broker.replica.record_checks import INLINE_BYTES_MAX, output_limit_bytes
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.message_sets.raising import has_no_message, is_message_set, raised
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch

# The first version whose records are batches.
_BATCH_VERSION = 3
_NOTHING = AppendPlan(ErrorCode.NONE)


async def handle(services: Services, context: RequestContext, request: ProduceRequest) -> Any:
    """Make batches of the sets, then answer as later versions are answered."""
    made: dict[int, RecordBatch | AppendPlan] = {}
    for topic in request.topic_data:
        if refusal_of(services, context, request.acks, topic.name) is not ErrorCode.NONE:
            continue
        for wanted in topic.partition_data:
            partition = services.partitions.find(topic.name, wanted.index)
            records = wanted.records
            assert not isinstance(records, FileRegion), "requests hold their records in memory"
            if partition is not None and records is not None:
                made[id(wanted)] = await _made(services, partition, records)

    def judge(
        partition: PartitionRuntime, wanted: PartitionProduceData, api_version: int
    ) -> RecordBatch | AppendPlan | None:
        batch = made.get(id(wanted))
        if batch is _NOTHING:
            return None
        if batch is None:
            records = wanted.records
            assert not isinstance(records, FileRegion), "requests hold their records in memory"
            return partition.judge(records, api_version)
        if isinstance(batch, AppendPlan):
            return batch
        partition.traffic.raised_count += batch.record_count
        return partition.judge(batch.view, _BATCH_VERSION)

    outcome = produce.handle(services, context, request, judge)
    if isinstance(outcome, Paused):
        outcome = outcome.coroutine
    return await outcome if isinstance(outcome, CoroutineType) else outcome


async def _made(
    services: Services, partition: PartitionRuntime, records: Buffer
) -> RecordBatch | AppendPlan:
    """The messages as they are kept, or the batch that they become, or why there is neither."""
    leading, rules = partition.replica.leading, partition.settings.append_rules
    # With a second replica nothing is kept: an entry without a leader epoch proves no lineage.
    if partition.settings.keeps_format and leading is not None and not leading.followers:
        limit_bytes, wall_ms = output_limit_bytes(rules, len(records)), _wall_ms(services)
        if len(records) <= INLINE_BYTES_MAX:
            kept = kept_set(records, rules, wall_ms, limit_bytes)
        else:
            kept = await services.ports.offload.run(kept_set, records, rules, wall_ms, limit_bytes)
        if kept is not None:
            try:
                await admit_messages(partition.log)
            except KafkaError as error:
                return AppendPlan(error.code, error.message, is_early=True)
            return AppendPlan(ErrorCode.NONE, None, kept, stamps_time=rules.uses_append_time)
    return await _batch(services, partition, records)


def _wall_ms(services: Services) -> int:
    return services.ports.clock.wall_ms()


async def _batch(
    services: Services, partition: PartitionRuntime, records: Buffer
) -> RecordBatch | AppendPlan:
    """The batch of a message set, or why there is none; a batch is left for the judge."""
    limit_bytes = output_limit_bytes(partition.settings.append_rules, len(records))
    try:
        if has_no_message(records):
            return _NOTHING
        if not is_message_set(records):
            return partition.judge(records, _BATCH_VERSION)
        if len(records) <= INLINE_BYTES_MAX:
            return raised(records, limit_bytes)
        return await services.ports.offload.run(raised, records, limit_bytes)
    except KafkaError as error:
        return AppendPlan(error.code, error.message, is_early=True)

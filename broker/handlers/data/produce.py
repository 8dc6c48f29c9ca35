"""Produce (key 0): append batches to partitions led here.

Versions 3-13; 0-2, which carry older formats, come by way of handlers/old.
3: record batches, transactional id. 5: log start offset. 7: zstd. 8: record errors (KIP-467).
10: current leader (KIP-951). 11: TRANSACTION_ABORTABLE allowed. 12: partitions join the transaction
with their first batch (KIP-890). 13: topics by id (KIP-516).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.internal_topics import is_audit_writer, is_closed_to
from ottla.broker.engine.context import Paused
from ottla.broker.handlers.appends import Appends, new_answer, refusal_of
from ottla.broker.handlers.shared import may_act_for_cluster
from ottla.broker.handlers.txn_produces import begin_all, verify_all
from ottla.broker.partitions.produces import TOPIC_ID_VERSION, ProducePart
from ottla.coordinator.metadata.image import AUDIT_TOPIC
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.produces import Judged
    from ottla.protocol.ids import Uuid
    from ottla.protocol.messages.produce import (
        PartitionProduceData,
        PartitionProduceResponse,
        ProduceRequest,
        TopicProduceData,
    )

    _Asked = tuple[TopicProduceData, Iterable[PartitionProduceData]]
    Judge = Callable[[PartitionRuntime, PartitionProduceData, int], Judged | None]
    """Partition, records and version to what may be appended; None if there are no records."""

_NONE = ErrorCode.NONE


def _judged(partition: PartitionRuntime, wanted: PartitionProduceData, api_version: int) -> Judged:
    records = wanted.records
    assert not isinstance(records, FileRegion), "requests hold their records in memory"
    return partition.judge(records, api_version)


def handle(
    services: Services, context: RequestContext, request: ProduceRequest, judge: Judge = _judged
) -> Any:
    """Append in the ordered part; answer once acks and flush settings are satisfied.

    The ordered part suspends only where records must be looked into, or the coordinator of a
    transaction must be asked. HOT."""
    appends = Appends(services, context, request)
    suspended: list[ProducePart] = []
    transactional: list[ProducePart] = []
    wall_ms = services.ports.clock.wall_ms()
    for topic, partition_data in _asked(request):
        name, refusal = _topic(services, context, request, topic)
        answers = appends.answers_for(name, topic.topic_id)
        for wanted in partition_data:
            answer = new_answer(wanted.index)
            answers.append(answer)
            if refusal is not _NONE:
                answer.error_code = refusal
                continue
            part = _part(appends, (name, topic.topic_id), wanted, answer, judge)
            if part is None:
                continue
            if part.needs_look:
                part.look_here(wall_ms)
            if part.is_transactional:
                transactional.append(part)
            elif part.needs_look:
                suspended.append(part)
            else:
                appends.write(part)
    if not suspended and not transactional:
        return appends.finish()
    if transactional:
        begin_all(services, context, request.transactional_id, transactional)
        for part in transactional:
            if part.guard is None and not part.needs_look:
                appends.write(part)
            else:
                suspended.append(part)
        if not suspended:
            return appends.finish()
        verify = partial(verify_all, services, context, request.transactional_id, suspended)
        return Paused(_look_then_write(appends, suspended, verify))
    return _look_then_write(appends, suspended, _nothing_to_ask)


def _topic(
    services: Services, context: RequestContext, request: ProduceRequest, topic: TopicProduceData
) -> tuple[str, ErrorCode]:
    """The topic's name, and why nothing may be appended to it."""
    name = topic.name
    if context.api_version >= TOPIC_ID_VERSION:
        name = services.metadata.topic_name(topic.topic_id) or ""
        if not name:
            return name, ErrorCode.UNKNOWN_TOPIC_ID
    is_of_audit = name == AUDIT_TOPIC and is_audit_writer(context.client_id)
    # The client id alone grants nothing: among access rules, only brokers may act for the cluster.
    if is_of_audit and may_act_for_cluster(services, context):
        return name, _NONE
    refusal = refusal_of(services, context, request.acks, name)
    if refusal is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        refusal = _why_refused(services, context, request.transactional_id)
    elif refusal is _NONE and is_closed_to("" if services.acls else context.client_id, name):
        # Among rules, a client id is a label that a client chooses and grants nothing.
        refusal = ErrorCode.INVALID_TOPIC_EXCEPTION
    return name, refusal


def _why_refused(
    services: Services, context: RequestContext, transactional_id: str | None
) -> ErrorCode:
    """A transaction that the producer may not use is said before the topic."""
    if transactional_id is None or services.authorizer.may_see(
        context, Operation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _asked(
    request: ProduceRequest,
) -> Iterable[tuple[TopicProduceData, Iterable[PartitionProduceData]]]:
    """The topics with what is wanted of each: a topic that is named twice is one topic, and of a
    partition that is named twice the last records are meant, as in Kafka."""
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return ((topics[0], topics[0].partition_data),)
    found: dict[object, tuple[TopicProduceData, dict[int, PartitionProduceData]]] = {}
    for topic in topics:
        wanted = found.setdefault((topic.name, topic.topic_id), (topic, {}))[1]
        wanted.update((one.index, one) for one in topic.partition_data)
    return ((topic, wanted.values()) for topic, wanted in found.values() if wanted)


def _part(
    appends: Appends,
    topic: tuple[str, Uuid],
    wanted: PartitionProduceData,
    answer: PartitionProduceResponse,
    judge: Judge,
) -> ProducePart | None:
    """What may be appended; None if the answer says why nothing is, or there is nothing."""
    services, api_version = appends.services, appends.context.api_version
    name, topic_id = topic
    partition = services.partitions.find(name, wanted.index)
    if partition is None:
        answer.error_code = services.metadata.error_for_missing(name, wanted.index)
        return None
    if api_version >= TOPIC_ID_VERSION and partition.log.topic_id != topic_id:
        # The topic was created again, and this replica has the old one or already the new one.
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        return None
    judged = judge(partition, wanted, api_version)
    return None if judged is None else ProducePart.of(partition, judged, answer)


async def _look_then_write(
    appends: Appends, suspended: list[ProducePart], verify: Callable[[], Awaitable[None]]
) -> Any:
    ports = appends.services.ports
    wall_ms = ports.clock.wall_ms()
    for part in suspended:
        if part.needs_look:
            await part.look(wall_ms, ports.offload)
    await verify()
    for part in suspended:
        appends.write(part)
    return appends.finish()


async def _nothing_to_ask() -> None:
    """No transaction is about to begin."""

"""Produce (key 0): append batches to partitions led here.

Versions 3-13 are served. 0-2 are advertised, because librdkafka before 2.11.1 tests for them, but
carry the formats before record batches; no client that is asked to choose picks them.
3: record batches, transactional id. 5: log start offset. 7: zstd. 8: record errors (KIP-467).
10: current leader (KIP-951). 11: TRANSACTION_ABORTABLE allowed. 12: partitions join the transaction
with their first batch (KIP-890). 13: topics by id (KIP-516).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.internal_topics import is_closed_to
from ottla.broker.engine.context import Paused
from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.handlers.txn_produces import begin_all, verify_all
from ottla.broker.partitions.produces import (
    ACKS_ALL,
    LEADER_VERSION,
    TOPIC_ID_VERSION,
    VALID_ACKS,
    PendingProduce,
    ProducePart,
    add_leaders,
)
from ottla.broker.partitions.request_outcome import await_all
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.append_outcome import AppendOutcome
    from ottla.protocol.ids import Uuid

    _Asked = tuple[TopicProduceData, Iterable[PartitionProduceData]]

_MESSAGE_VERSION = 8
_STORAGE_ERROR_VERSION = 4

# Stands in every answer that names no leader. Shared, so replaced and never written to.
_NOBODY = LeaderIdAndEpoch()
_NONE = ErrorCode.NONE
# Kafka says them before it looks at the log, and then not where that starts.
_SAID_AT_ONCE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_WRITE = Operation.WRITE
_TOPIC = AclResourceType.TOPIC


def handle(services: Services, context: RequestContext, request: ProduceRequest) -> Any:
    """Append in the ordered part; answer once acks and flush settings are satisfied.

    The ordered part suspends only where records must be looked into, or the coordinator of a
    transaction must be asked. HOT."""
    response = ProduceResponse()
    suspended: list[ProducePart] = []
    transactional: list[ProducePart] = []
    pending: list[PendingProduce] = []
    acks = request.acks
    wall_ms = services.ports.clock.wall_ms()
    for topic, partition_data in _asked(request):
        name = topic.name
        if context.api_version >= TOPIC_ID_VERSION:
            name = services.metadata.topic_name(topic.topic_id) or ""
        answers: list[PartitionProduceResponse] = []
        refusal = _NONE
        if context.api_version >= TOPIC_ID_VERSION and not name:
            refusal = ErrorCode.UNKNOWN_TOPIC_ID
        elif not services.authorizer.is_allowed(context, _WRITE, _TOPIC, name):
            refusal = _why_refused(services, context, request.transactional_id)
        elif acks not in VALID_ACKS:
            refusal = ErrorCode.INVALID_REQUIRED_ACKS
        elif is_closed_to("" if services.acls else context.client_id, name):
            # Among rules, a client id is a label that a client chooses and grants nothing.
            refusal = ErrorCode.INVALID_TOPIC_EXCEPTION
        for wanted in partition_data:
            answer = PartitionProduceResponse(
                index=wanted.index, error_code=refusal, base_offset=-1, current_leader=_NOBODY
            )
            answers.append(answer)
            if refusal is not _NONE:
                continue
            part = _judge(services, context, (name, topic.topic_id), wanted, answer)
            if part is None:
                continue
            if part.needs_look:
                part.look_here(wall_ms)
            if part.is_transactional:
                transactional.append(part)
            elif part.needs_look:
                suspended.append(part)
            else:
                _write(services, context, acks, pending, part)
        response.responses.append(
            TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=answers)
        )
    if not suspended and not transactional:
        return _finish(services, context, request, response, pending)
    write = partial(_write, services, context, acks, pending)
    finish = partial(_finish, services, context, request, response, pending)
    if transactional:
        begin_all(services, context, request.transactional_id, transactional)
        for part in transactional:
            if part.guard is None and not part.needs_look:
                write(part)
            else:
                suspended.append(part)
        if not suspended:
            return finish()
        verify = partial(verify_all, services, context, request.transactional_id, suspended)
        return Paused(_look_then_write(services, suspended, verify, write, finish))
    return _look_then_write(services, suspended, _nothing_to_ask, write, finish)


def _why_refused(
    services: Services, context: RequestContext, transactional_id: str | None
) -> ErrorCode:
    """A transaction that the producer may not use is said before the topic."""
    if transactional_id is None or services.authorizer.may_see(
        context, _WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
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


def _judge(
    services: Services,
    context: RequestContext,
    topic: tuple[str, Uuid],
    wanted: PartitionProduceData,
    answer: PartitionProduceResponse,
) -> ProducePart | None:
    name, topic_id = topic
    partition = services.partitions.find(name, wanted.index)
    if partition is None:
        answer.error_code = services.metadata.error_for_missing(name, wanted.index)
        return None
    if context.api_version >= TOPIC_ID_VERSION and partition.log.topic_id != topic_id:
        # The topic was created again, and this replica has the old one or already the new one.
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        return None
    records = wanted.records
    assert not isinstance(records, FileRegion), "requests hold their records in memory"
    return ProducePart(partition, partition.judge(records, context.api_version), answer)


async def _look_then_write(
    services: Services,
    suspended: list[ProducePart],
    verify: Callable[[], Awaitable[None]],
    write: Callable[[ProducePart], None],
    finish: Callable[[], Any],
) -> Any:
    wall_ms = services.ports.clock.wall_ms()
    for part in suspended:
        if part.needs_look:
            await part.look(wall_ms, services.ports.offload)
    await verify()
    for part in suspended:
        write(part)
    return finish()


async def _nothing_to_ask() -> None:
    """No transaction is about to begin."""


def _write(
    services: Services,
    context: RequestContext,
    acks: int,
    pending: list[PendingProduce],
    part: ProducePart,
) -> None:
    """Append one partition's batch, answer it, and note what the answer has to wait for."""
    partition = part.partition
    if part.is_unread:
        part.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    appended = partition.write(part.plan, acks)
    _fill(part, appended, context.api_version)
    if appended.error_code is not _NONE:
        services.refusal_log.note(
            partition.partition, context.client_id, appended.error_code, appended.error_message
        )
        return
    needs_replication = acks == ACKS_ALL and (
        partition.replication_state(appended.next_offset, appended.leader_epoch) is not _NONE
    )
    needs_flush = partition.flush_is_due
    if needs_flush:
        services.flushes.start(partition)
    if needs_replication or needs_flush or partition.is_becoming_leader:
        pending.append(
            PendingProduce(
                partition,
                appended.next_offset,
                appended.leader_epoch,
                part.answer,
                needs_replication,
                needs_flush,
            )
        )


def _finish(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    pending: list[PendingProduce],
) -> Any:
    if request.acks == 0:
        _refuse_silently(response)
        return None

    def told() -> ProduceResponse:
        if context.api_version >= LEADER_VERSION:
            add_leaders(services.metadata, context.listener, response)
        return response

    if not pending:
        return told()
    later: DeferredAnswer[ProduceResponse] = DeferredAnswer()
    deadline_ms = context.received_ms + max(0, request.timeout_ms)
    await_all(services.waiting, pending, deadline_ms, lambda: later.complete(told()), context.peer)
    return later


def _fill(part: ProducePart, appended: AppendOutcome, api_version: int) -> None:
    answer = part.answer
    error = answer.error_code = appended.error_code
    answer.base_offset = appended.base_offset
    answer.log_append_time_ms = appended.log_append_time_ms
    if error not in _SAID_AT_ONCE and not part.plan.is_early:
        answer.log_start_offset = appended.log_start_offset
    if error is _NONE:
        return
    if api_version >= _MESSAGE_VERSION:
        if part.plan.is_told:
            answer.error_message = appended.error_message
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in part.record_errors
        ]
    if error is ErrorCode.KAFKA_STORAGE_ERROR and api_version < _STORAGE_ERROR_VERSION:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _refuse_silently(response: ProduceResponse) -> None:
    # Without an answer, a closed connection is the only way the producer learns of an error.
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code != ErrorCode.NONE:
                raise KafkaError(
                    error_code(part.error_code),
                    f"produce with acks=0 to {topic.name}-{part.index} failed",
                )

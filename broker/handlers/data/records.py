"""DeleteRecords (key 21): forget everything before an offset. Versions 0-2; asked at the leader.

The offset -1 means the high watermark. The answer's low watermark is the new log start offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.partitions.record_deletion import (
    PendingDeletion,
    await_deletions,
    delete_before,
    refusal_of,
)
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services


async def delete(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | DeferredAnswer[DeleteRecordsResponse]:
    """Move each partition's log start offset up, durably before the answer (hazard S-19).

    Answered when it is so wherever the next leader may come from, or that is not known in time."""
    response = DeleteRecordsResponse()
    pending: list[PendingDeletion] = []
    for topic in _each_once(request.topics):
        allowed = services.authorizer.is_allowed(
            context, Operation.DELETE, AclResourceType.TOPIC, topic.name
        )
        answers = [
            await _delete(services, topic.name, wanted, pending, allowed=allowed)
            for wanted in topic.partitions
        ]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    later: DeferredAnswer[DeleteRecordsResponse] = DeferredAnswer()
    await_deletions(
        services.waiting,
        pending,
        context.received_ms + max(0, request.timeout_ms),
        lambda: later.complete(response),
        context.peer,
    )
    return later


def _each_once(topics: list[DeleteRecordsTopic]) -> list[DeleteRecordsTopic]:
    """Each partition as it was named last."""
    found: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in topics:
        for part in topic.partitions:
            found.setdefault(topic.name, {})[part.partition_index] = part
    return [
        DeleteRecordsTopic(name=name, partitions=list(parts.values()))
        for name, parts in found.items()
    ]


async def _delete(
    services: Services,
    topic: str,
    wanted: DeleteRecordsPartition,
    pending: list[PendingDeletion],
    *,
    allowed: bool,
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    partition = services.partitions.find(topic, wanted.partition_index)
    if not allowed:
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif partition is None:
        answer.error_code = services.metadata.error_for_missing(topic, wanted.partition_index)
    elif (refusal := refusal_of(partition)) is not ErrorCode.NONE:
        answer.error_code = refusal
    else:
        try:
            answer.low_watermark = await delete_before(partition, wanted.offset)
        except KafkaError as error:
            answer.error_code = error.code
        else:
            pending.append(PendingDeletion(partition, answer))
    return answer

"""ListOffsets (key 2): offsets by time and by name. Versions 1-10.

1: one offset per partition. 2: isolation level. 4: leader epoch both ways (KIP-320).
5: OFFSET_NOT_AVAILABLE. 7: offset of the largest timestamp (KIP-734). 8: earliest local offset.
9: latest tiered offset (KIP-1005); nothing is tiered here, so it is -1. 10: how long to wait for
remote storage (KIP-1075); there is none, so no request waits for it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.broker.handlers.shared import is_from_broker
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.partition import PartitionRuntime

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
# Kafka's replica id of tools that look at replicas: each tells the end of its log, followers too.
DEBUGGING_REPLICA = -2
_READ_COMMITTED = 1
_ISOLATION_LEVELS = (0, _READ_COMMITTED)
_EPOCH_VERSION = 4
_NOT_AVAILABLE_VERSION = 5
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


class _Search(NamedTuple):
    """A partition that is to be searched by time."""

    partition: PartitionRuntime
    wanted: ListOffsetsPartition
    answer: ListOffsetsPartitionResponse


def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    """Answer each partition of each topic; names at once, times after a look into the log."""
    response = ListOffsetsResponse()
    searches: list[_Search] = []
    is_sound = request.isolation_level in _ISOLATION_LEVELS
    counts = Counter(
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    )
    for name, parts in _each_once(request).items():
        allowed = _is_allowed(services, context, request.replica_id, name)
        answers = []
        for wanted in parts.values():
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            if not allowed:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not is_sound or counts[name, wanted.partition_index] > 1:
                answer.error_code = ErrorCode.INVALID_REQUEST
            else:
                answer.error_code = _look_up(
                    services, context, request, (name, wanted), (answer, searches)
                )
            answers.append(answer)
        response.topics.append(ListOffsetsTopicResponse(name=name, partitions=answers))
    if searches:
        return _search_all(context, request, searches, response)
    return response


def _is_allowed(services: Services, context: RequestContext, replica_id: int, topic: str) -> bool:
    """Only a broker may ask as a replica: it is told offsets that consumers do not see yet."""
    if replica_id >= 0:
        return is_from_broker(services, context, replica_id)
    return services.authorizer.is_allowed(context, Operation.DESCRIBE, AclResourceType.TOPIC, topic)


def _each_once(request: ListOffsetsRequest) -> dict[str, dict[int, ListOffsetsPartition]]:
    """What is asked for, by name and index."""
    found: dict[str, dict[int, ListOffsetsPartition]] = {}
    for topic in request.topics:
        parts = found.setdefault(topic.name, {})
        for part in topic.partitions:
            parts[part.partition_index] = part
    return {name: parts for name, parts in found.items() if parts}


async def _search_all(
    context: RequestContext,
    request: ListOffsetsRequest,
    searches: list[_Search],
    response: ListOffsetsResponse,
) -> ListOffsetsResponse:
    """May wait for the disk, so the partition may be led elsewhere by the end of each search."""
    for partition, wanted, answer in searches:
        try:
            log = partition.log
            if wanted.timestamp == MAX_TIMESTAMP:
                found = await log.offset_of_largest_timestamp()
            else:
                found = await log.offset_for_timestamp(wanted.timestamp)
        except KafkaError as failure:
            answer.error_code = failure.code
            continue
        except CorruptLogError:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            continue
        answer.error_code = partition.check_leader_epoch(wanted.current_leader_epoch)
        # A record that the reader may not see yet does not exist for it.
        is_found = found is not None and found.offset < _latest(partition, request)
        if answer.error_code == ErrorCode.NONE and found is not None and is_found:
            answer.offset, answer.timestamp, answer.leader_epoch = found
            if context.api_version < _EPOCH_VERSION:
                answer.leader_epoch = -1
    return response


def _look_up(
    services: Services,
    context: RequestContext,
    request: ListOffsetsRequest,
    where: tuple[str, ListOffsetsPartition],
    into: tuple[ListOffsetsPartitionResponse, list[_Search]],
) -> ErrorCode:
    (topic, wanted), (answer, searches) = where, into
    partition = services.partitions.find(topic, wanted.partition_index)
    if partition is None:
        return services.metadata.error_for_missing(topic, wanted.partition_index)
    if request.replica_id == DEBUGGING_REPLICA and wanted.timestamp == LATEST:
        if not partition.is_open:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.offset = partition.log.log_end_offset
        if context.api_version >= _EPOCH_VERSION:
            answer.leader_epoch = partition.leader_epoch
        return ErrorCode.NONE
    error = partition.check_leader_epoch(wanted.current_leader_epoch)
    if error == ErrorCode.NONE:
        error = _check_timestamp(wanted.timestamp, context.api_version)
    if error == ErrorCode.NONE and request.replica_id < 0:
        error = partition.replica.check_offsets_known()
        if error != ErrorCode.NONE and context.api_version < _NOT_AVAILABLE_VERSION:
            return ErrorCode.LEADER_NOT_AVAILABLE
    if error != ErrorCode.NONE:
        return error
    if wanted.timestamp == LATEST:
        answer.offset = _latest(partition, request)
        answer.leader_epoch = partition.leader_epoch
    elif wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = partition.log_start_offset
        answer.leader_epoch = partition.replica.history.epochs.epoch_at(answer.offset)
    elif wanted.timestamp != LATEST_TIERED:
        searches.append(_Search(partition, wanted, answer))
    if context.api_version < _EPOCH_VERSION:
        answer.leader_epoch = -1
    return ErrorCode.NONE


def _check_timestamp(timestamp: int, api_version: int) -> ErrorCode:
    if timestamp >= EARLIEST:
        return ErrorCode.NONE
    first = _FIRST_VERSION.get(timestamp)
    if first is None or api_version < first:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


def _latest(partition: PartitionRuntime, request: ListOffsetsRequest) -> int:
    return partition.latest_offset(
        read_committed=request.isolation_level == _READ_COMMITTED, follower=request.replica_id >= 0
    )

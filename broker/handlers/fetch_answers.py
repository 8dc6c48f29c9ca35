"""Answers to fetches: what the broker reports of each partition, and what it withholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.shared import is_from_broker
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.partition_read import PartitionRead
    from ottla.protocol.ids import Uuid

_READ = Operation.READ
_TOPIC = AclResourceType.TOPIC
_STORAGE_ERROR_VERSION = 6
ENDPOINTS_VERSION = 16
MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def may_read(services: Services, context: RequestContext, replica_id: int, topic: str) -> bool:
    """Followers are brokers, on the listener of brokers; what they say moves the watermark."""
    if replica_id < 0:
        return services.authorizer.is_allowed(context, _READ, _TOPIC, topic)
    return is_from_broker(services, context, replica_id)


def withhold(
    services: Services, context: RequestContext, reads: list[PartitionRead], replica_id: int
) -> None:
    """Take back what the caller may not read any more."""
    for read in reads:
        if not may_read(services, context, replica_id, read.wanted.topic):
            read.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            read.records = read.aborted = read.diverging = None
            read.high_watermark = read.last_stable_offset = read.log_start_offset = -1
            read.preferred_replica = -1


def full_response(
    services: Services, context: RequestContext, reads: list[PartitionRead]
) -> FetchResponse:
    response = FetchResponse()
    last: tuple[str, Uuid] | None = None
    for read in reads:
        topic = (read.wanted.topic, read.wanted.topic_id)
        if topic != last:
            last = topic
            response.responses.append(FetchableTopicResponse(topic=topic[0], topic_id=topic[1]))
        response.responses[-1].partitions.append(_partition(services, context, read))
    return response


def count_sent(services: Services, reads: list[PartitionRead], *, is_follower: bool) -> None:
    """What leaves with this answer; what was read before in vain has not left."""
    for read in reads:
        if read.size_bytes:
            traffic = services.partitions.traffic[read.wanted.topic]
            if is_follower:
                traffic.replicated_bytes += read.size_bytes
            else:
                traffic.fetched_bytes += read.size_bytes


def _partition(services: Services, context: RequestContext, read: PartitionRead) -> PartitionData:
    answer = PartitionData(
        partition_index=read.wanted.partition,
        error_code=read.error_code,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        # Null records break librdkafka, so nothing is zero bytes (KAFKA-18646).
        records=b"" if read.records is None else read.records,
        aborted_transactions=None,
        preferred_read_replica=read.preferred_replica,
    )
    if read.aborted is not None:
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in read.aborted
        ]
    if read.diverging is not None:
        answer.diverging_epoch = EpochEndOffset(
            epoch=read.diverging.leader_epoch, end_offset=read.diverging.end_offset
        )
    if read.error_code in MOVED and context.api_version >= ENDPOINTS_VERSION:
        leader, epoch = services.metadata.leader_of(read.wanted.topic, read.wanted.partition)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    if (
        read.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        and context.api_version < _STORAGE_ERROR_VERSION
    ):
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return answer

"""OffsetForLeaderEpoch (key 23): where a leader epoch ended. Versions 2-4.

2: fenced by the current leader epoch (KIP-320). 3: replica id; consumers may ask. 4: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services


def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """For each partition the largest known epoch not above the asked one, and its end."""
    response = OffsetForLeaderEpochResponse()
    authorizer, cluster = services.authorizer, AclResourceType.CLUSTER
    is_broker = authorizer.may_see(context, Operation.CLUSTER_ACTION, cluster, CLUSTER_NAME)
    for topic in request.topics:
        allowed = is_broker or authorizer.is_allowed(
            context, Operation.DESCRIBE, AclResourceType.TOPIC, topic.topic
        )
        answers = [
            _answer(services, topic.topic, wanted, allowed=allowed) for wanted in topic.partitions
        ]
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return response


def _answer(
    services: Services, topic: str, wanted: OffsetForLeaderPartition, *, allowed: bool
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    partition = services.partitions.find(topic, wanted.partition)
    if not allowed:
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif partition is None:
        answer.error_code = services.metadata.error_for_missing(topic, wanted.partition)
    else:
        answer.error_code = partition.check_leader_epoch(wanted.current_leader_epoch)
        if answer.error_code == ErrorCode.NONE:
            answer.leader_epoch, answer.end_offset = (
                partition.replica.history.epochs.end_offset_for(
                    wanted.leader_epoch, partition.log.log_end_offset
                )
            )
    return answer

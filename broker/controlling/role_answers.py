"""Evaluates a broker's responses to LeaderAndIsr and StopReplica."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.ids import Uuid
    from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

logger = logging.getLogger("ottla.controller")


class RoleAnswers(NamedTuple):
    """Replicas that took their role, those whose disk failed, and those that refused."""

    served: tuple[TopicPartition, ...]
    failed: tuple[TopicPartition, ...]
    refused: tuple[TopicPartition, ...]


def role_answers(
    node_id: int, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> RoleAnswers:
    """Read the response, with the topic names of the request."""
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    served: list[TopicPartition] = []
    failed: list[TopicPartition] = []
    refused: list[TopicPartition] = []
    for topic in response.topics:
        for partition in topic.partition_errors:
            error, name = error_code(partition.error_code), names.get(topic.topic_id)
            if name is None:
                continue
            item = TopicPartition(name, partition.partition_index)
            if error is ErrorCode.NONE:
                served.append(item)
                continue
            (failed if error is ErrorCode.KAFKA_STORAGE_ERROR else refused).append(item)
            logger.info("broker %d has not taken its role in %s: %s", node_id, item, error)
    return RoleAnswers(tuple(served), tuple(failed), tuple(refused))


def deleted_topics(request: StopReplicaRequest, response: StopReplicaResponse) -> tuple[Uuid, ...]:
    """Return the deleted topics without remaining replicas on the broker that answered."""
    if response.error_code != ErrorCode.NONE:
        return ()
    failed = {
        (one.topic_name, one.partition_index)
        for one in response.partition_errors
        if one.error_code != ErrorCode.NONE
    }
    return tuple(
        topic.topic_id
        for topic in request.topic_states
        if topic.topic_id != ZERO_UUID
        and not any(
            (topic.topic_name, one.partition_index) in failed for one in topic.partition_states
        )
    )

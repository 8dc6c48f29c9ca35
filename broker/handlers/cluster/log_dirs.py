"""DescribeLogDirs (35) and AlterReplicaLogDirs (34): this broker's data directories (KIP-113).

DescribeLogDirs, versions 1-4: what lies in them, copies of moving replicas included.
2 is flexible, 3 has an error of the whole answer, 4 the size of the file system and what is left
of it (KIP-827). Paths are absolute, whatever ``log.dirs`` says.

AlterReplicaLogDirs, versions 0-2: moves replicas, or chooses where later ones are made. 2 is
flexible. The answer comes when the moves have begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.directories.directory_view import view_directories
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.directories.directory_view import DirectoryView
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services


def describe(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Sizes in bytes, and how many records a replica is behind what is committed."""
    if not services.authorizer.is_allowed(
        context, Operation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        # Before version 3 there was no place for an error; an empty answer meant it.
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    views = view_directories(services.partitions, services.ports.disk)
    return DescribeLogDirsResponse(results=[_directory(view, wanted) for view in views])


async def alter(
    services: Services, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """One error for each replica; of one that is named twice the last directory counts."""
    wanted = {
        TopicPartition(topic.name, index): one.path
        for one in request.dirs
        for topic in one.topics
        for index in topic.partitions
    }
    allowed = services.authorizer.is_allowed(
        context, Operation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME
    )
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for partition, path in wanted.items():
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if allowed:
            error = await services.moves.alter(partition, path)
        topic = topics.setdefault(
            partition.topic, AlterReplicaLogDirTopicResult(topic_name=partition.topic)
        )
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition.partition, error))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _directory(view: DirectoryView, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(
        log_dir=view.path, total_bytes=view.total_bytes, usable_bytes=view.free_bytes
    )
    if not view.is_online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    topics: dict[str, DescribeLogDirsTopic] = {}
    for replica in view.replicas:
        topic, index = replica.partition
        if wanted is None or replica.partition in wanted:
            answer = topics.setdefault(topic, DescribeLogDirsTopic(topic))
            answer.partitions.append(
                DescribeLogDirsPartition(
                    index, replica.size_bytes, replica.offset_lag, replica.is_future
                )
            )
    result.topics = list(topics.values())
    return result

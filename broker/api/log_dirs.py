"""DescribeLogDirs (35): what lies in this broker's data directories. Versions 1-4.

2 is flexible, 3 has an error of the whole answer, 4 the space that is left (KIP-827). How large a
file system is as a whole is not known here and answered as such (-1).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.broker.policy.door import CLUSTER_NAME, Operation, ResourceType
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.context import RequestContext
    from ottla.broker.log.directory import LogDirectory
    from ottla.broker.runtime.services import Services

_UNKNOWN = -1


def describe(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Sizes in bytes, and how many records a replica is behind what is committed."""
    if not services.door.is_allowed(
        context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        # Before version 3 there was no place for an error; an empty answer meant it.
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    directories = services.partitions.logs.directories
    return DescribeLogDirsResponse(
        results=[_directory(services, directory, wanted) for directory in directories]
    )


def _directory(
    services: Services, directory: LogDirectory, wanted: set[tuple[str, int]] | None
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path, usable_bytes=_UNKNOWN)
    if not directory.home.health.is_online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for log in directory:
        if wanted is None or log.partition in wanted:
            runtime = services.partitions.find(*log.partition)
            committed = 0 if runtime is None else runtime.replica.high_watermark
            topics[log.partition.topic].append(
                DescribeLogDirsPartition(
                    partition_index=log.partition.partition,
                    partition_size=sum(segment.size_bytes for segment in log.segments),
                    offset_lag=max(0, committed - log.log_end_offset),
                )
            )
    result.topics = list(_sorted(topics.items()))
    try:
        result.usable_bytes = services.ports.disk.free_bytes(directory.path)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


def _sorted(
    topics: Iterable[tuple[str, list[DescribeLogDirsPartition]]],
) -> Iterable[DescribeLogDirsTopic]:
    for name, partitions in sorted(topics, key=lambda item: item[0]):
        yield DescribeLogDirsTopic(name, sorted(partitions, key=lambda one: one.partition_index))

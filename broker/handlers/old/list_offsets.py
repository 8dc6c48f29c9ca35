"""ListOffsets 0: several offsets of a partition, by the times at which its segments were written.

The rules are Kafka's: each segment has its base offset and the time of its last change, and the
log's end has the present. Asked for a time, the newest offset that is not younger comes first, then
the ones before, as many as are asked for. A consumer is told nothing above the high watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.data.list_offsets import EARLIEST, LATEST
from ottla.broker.handlers.shared import is_from_broker
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import CorruptLogError, ErrorCode
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest


class OffsetTime(NamedTuple):
    """An offset that segments begin at, or the log's end, and when what is before was written."""

    offset: int
    written_ms: int


def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """Answer each partition of each topic from the segments' files."""
    is_broker = request.replica_id >= 0
    response = ListOffsetsResponse()
    for topic in request.topics:
        allowed = (
            is_from_broker(services, context, request.replica_id)
            if is_broker
            else services.authorizer.is_allowed(
                context, Operation.DESCRIBE, AclResourceType.TOPIC, topic.name
            )
        )
        answers = []
        for wanted in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            if allowed:
                _answer(services, (topic.name, wanted), answer, is_broker=is_broker)
            else:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            answers.append(answer)
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _answer(
    services: Services,
    where: tuple[str, ListOffsetsPartition],
    answer: ListOffsetsPartitionResponse,
    *,
    is_broker: bool,
) -> None:
    topic, wanted = where
    partition = services.partitions.find(topic, wanted.partition_index)
    if partition is None:
        answer.error_code = services.metadata.error_for_missing(topic, wanted.partition_index)
        return
    answer.error_code = partition.check_leader_epoch(-1)
    if answer.error_code != ErrorCode.NONE:
        return
    try:
        times = _times(services, partition)
    except (OSError, CorruptLogError):
        answer.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return
    offsets = offsets_before(times, wanted.timestamp, wanted.max_num_offsets)
    high_watermark = partition.latest_offset(read_committed=False, follower=False)
    if not is_broker and offsets and offsets[0] > high_watermark:
        offsets = [high_watermark, *(one for one in offsets if one <= high_watermark)]
    answer.old_style_offsets = offsets


def _times(services: Services, partition: PartitionRuntime) -> list[OffsetTime]:
    log, disk = partition.log, services.ports.disk
    views = log.segment_views()
    times = [
        OffsetTime(max(view.base_offset, log.log_start_offset), disk.modified_ms(view.path))
        for view in views
    ]
    if views[-1].size_bytes:
        times.append(OffsetTime(log.log_end_offset, services.ports.clock.wall_ms()))
    return times


def offsets_before(times: Sequence[OffsetTime], timestamp: int, count: int) -> list[int]:
    """The offsets to answer, the largest first: at most ``count`` of those before a time, of all
    (``LATEST``) or of the first (``EARLIEST``). Pure."""
    last = len(times) - 1
    if timestamp == EARLIEST:
        last = 0
    elif timestamp != LATEST:
        while last >= 0 and times[last].written_ms > timestamp:
            last -= 1
    first = max(0, last + 1 - max(0, count))
    return sorted((one.offset for one in times[first : last + 1]), reverse=True)

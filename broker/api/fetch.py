"""Fetch (key 1): batches from partitions led here. Versions 4-12.

4: isolation level, last stable offset, aborted transactions. 5: log start offset. 7: sessions.
9: current leader epoch (KIP-320). 10: zstd. 11: rack, preferred replica (KIP-392). 12: last
fetched epoch, diverging epoch (KIP-595).

Sessions (KIP-227) are declined: every answer carries session id 0, which tells the client to keep
sending full requests. Not done here: topics by id (13+).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.policy.door import Operation, ResourceType
from ottla.broker.runtime.partition_read import FetchPlan, PartitionRead, Wanted
from ottla.broker.runtime.reading import read_plain
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from ottla.protocol.straight_fetch import (
    FETCH_VERSIONS,
    answer_end,
    fetch_answer,
    fetch_reader,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.context import Peer, ReplyPart, RequestContext
    from ottla.broker.runtime.services import Services, Straight

_READ_COMMITTED = 1
_READ = Operation.READ
_TOPIC = ResourceType.TOPIC
_ZSTD_VERSION = 10
_STORAGE_ERROR_VERSION = 6
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(services: Services, context: RequestContext, request: FetchRequest) -> Any:
    """Read at once, or wait for min_bytes until max_wait has passed."""
    # A session that was never given cannot be continued; 0 and -1 both mean a full request.
    if request.session_id != 0 and request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    plan = FetchPlan(
        wanted=_wanted(services, context, request),
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        read_committed=request.isolation_level == _READ_COMMITTED,
        replica_id=request.replica_id,
        zstd_allowed=context.api_version >= _ZSTD_VERSION,
    )

    def respond(reads: list[PartitionRead]) -> FetchResponse:
        return _response(services, context, request, reads)

    return services.reads.fetch(context, plan, respond)


def straight(version: int) -> Straight | None:
    """The shorter way of a consumer that asks one partition for what is there.

    It knows success only: on anything else it leaves the request to ``handle``. HOT."""
    if version not in FETCH_VERSIONS:
        return None
    read, answer, end = fetch_reader(version), fetch_answer(version), answer_end(version)

    def fetch(
        services: Services, peer: Peer, frame: memoryview, body: int, correlation_id: int
    ) -> Sequence[ReplyPart] | None:
        asked = read(frame, body)
        if asked is None:
            return None
        wait_ms, min_bytes, max_bytes, isolation, topic, index, epoch, offset, named = asked
        partition = services.partitions.find(topic, index)
        if partition is None or not services.door.is_allowed(peer, _READ, _TOPIC, topic):
            return None
        max_bytes = min(max_bytes, services.reads.fetch_max_bytes)
        committed = isolation == _READ_COMMITTED
        found = read_plain(partition, offset, max_bytes, epoch, read_committed=committed)
        if found is None:
            return None
        region, offsets = found
        if region.size_bytes < min_bytes and wait_ms > 0:
            return None
        partition.traffic.fetched_bytes += region.size_bytes
        out = answer(correlation_id, named, index, offsets, region.size_bytes)
        return (out, region, end) if end else (out, region)

    return fetch


def _wanted(services: Services, context: RequestContext, request: FetchRequest) -> list[Wanted]:
    wanted: list[Wanted] = []
    for topic in request.topics:
        allowed = services.door.is_allowed(context, Operation.READ, ResourceType.TOPIC, topic.topic)
        error = ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        wanted += [
            Wanted(
                topic.topic,
                part.partition,
                part.fetch_offset,
                part.partition_max_bytes,
                part.current_leader_epoch,
                part.last_fetched_epoch,
                error,
            )
            for part in topic.partitions
        ]
    return wanted


def _response(
    services: Services,
    context: RequestContext,
    request: FetchRequest,
    reads: list[PartitionRead],
) -> FetchResponse:
    response = FetchResponse()
    results = iter(reads)
    for topic in request.topics:
        own = [next(results) for _ in topic.partitions]
        _count(services, topic.topic, own, is_follower=request.replica_id >= 0)
        answers = [_partition(services, context, read) for read in own]
        response.responses.append(FetchableTopicResponse(topic=topic.topic, partitions=answers))
    return response


def _count(
    services: Services, topic: str, reads: list[PartitionRead], *, is_follower: bool
) -> None:
    size_bytes = sum(read.size_bytes for read in reads)
    if size_bytes:
        traffic = services.partitions.traffic[topic]
        if is_follower:
            traffic.replicated_bytes += size_bytes
        else:
            traffic.fetched_bytes += size_bytes


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
    if read.error_code in _MOVED and context.api_version >= 12:
        leader, epoch = services.metadata.leader_of(read.wanted.topic, read.wanted.partition)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    if (
        read.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        and context.api_version < _STORAGE_ERROR_VERSION
    ):
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return answer

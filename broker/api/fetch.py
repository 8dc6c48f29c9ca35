"""Fetch (key 1): batches from partitions led here, for consumers and followers. Versions 4-17.

4: isolation level, last stable offset, aborted transactions. 5: log start offset. 7: sessions.
9: current leader epoch (KIP-320). 10: zstd. 11: rack, preferred replica (KIP-392). 12: last
fetched epoch, diverging epoch (KIP-595). 13: topics by id (KIP-516). 15: the follower's broker
epoch (KIP-903). 16: where the new leader is (KIP-951). 17: the directory (KIP-853), not looked at.

Sessions (KIP-227) are declined: every answer carries session id 0, which tells the client to keep
sending full requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.policy.door import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.runtime.partition_read import FetchPlan, PartitionRead, Wanted
from ottla.broker.runtime.reading import read_plain
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
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
_LEADER_VERSION = 12
_TOPIC_ID_VERSION = 13
_REPLICA_STATE_VERSION = 15
_ENDPOINTS_VERSION = 16
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(services: Services, context: RequestContext, request: FetchRequest) -> Any:
    """Read at once, or wait for min_bytes until max_wait has passed."""
    # A session that was never given cannot be continued; 0 and -1 both mean a full request.
    if request.session_id != 0 and request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    replica_id, broker_epoch = request.replica_id, -1
    if context.api_version >= _REPLICA_STATE_VERSION:
        state = request.replica_state
        replica_id, broker_epoch = state.replica_id, state.replica_epoch
    plan = FetchPlan(
        wanted=_wanted(services, context, request, is_follower=replica_id >= 0),
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        read_committed=request.isolation_level == _READ_COMMITTED,
        replica_id=replica_id,
        zstd_allowed=context.api_version >= _ZSTD_VERSION,
        broker_epoch=broker_epoch,
    )

    def respond(reads: list[PartitionRead]) -> FetchResponse:
        _count(services, reads, is_follower=replica_id >= 0)
        return _response(services, context, request, reads)

    return services.reads.fetch(context, plan, respond)


def straight(version: int) -> Straight | None:
    """The shorter way of a consumer that asks one partition for what is there.

    It knows success only: on anything else it leaves the request to ``handle``. HOT."""
    if version not in FETCH_VERSIONS:
        return None
    read, answer, end = fetch_reader(version), fetch_answer(version), answer_end(version)
    by_id = version >= _TOPIC_ID_VERSION

    def fetch(
        services: Services, peer: Peer, frame: memoryview, body: int, correlation_id: int
    ) -> Sequence[ReplyPart] | None:
        asked = read(frame, body)
        if asked is None:
            return None
        wait_ms, min_bytes, max_bytes, isolation, named, index, epoch, offset, again = asked
        topic: str | None = services.metadata.topic_name(named) if by_id else named
        if topic is None:
            return None
        partition = services.partitions.find(topic, index)
        if partition is None or not services.door.is_allowed(peer, _READ, _TOPIC, topic):
            return None
        if by_id and partition.log.topic_id != named:
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
        out = answer(correlation_id, again, index, offsets, region.size_bytes)
        return (out, region, end) if end else (out, region)

    return fetch


def _wanted(
    services: Services, context: RequestContext, request: FetchRequest, *, is_follower: bool
) -> list[Wanted]:
    wanted: list[Wanted] = []
    for topic in request.topics:
        name, topic_id = topic.topic, ZERO_UUID
        error = ErrorCode.NONE
        if context.api_version >= _TOPIC_ID_VERSION:
            topic_id = topic.topic_id
            name = services.metadata.topic_name(topic_id) or ""
        if not name:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not _is_allowed(services, context, name, is_follower=is_follower):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        wanted += [
            Wanted(
                name,
                part.partition,
                part.fetch_offset,
                part.partition_max_bytes,
                part.current_leader_epoch,
                part.last_fetched_epoch,
                error,
                part.log_start_offset,
                topic_id,
            )
            for part in topic.partitions
        ]
    return wanted


def _is_allowed(
    services: Services, context: RequestContext, topic: str, *, is_follower: bool
) -> bool:
    """Followers are brokers, on the listener of brokers; what they say moves the watermark."""
    if not is_follower:
        return services.door.is_allowed(context, _READ, _TOPIC, topic)
    return context.listener == services.config.inter_broker_listener_name and (
        services.door.is_allowed(
            context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        )
    )


def _response(
    services: Services,
    context: RequestContext,
    request: FetchRequest,
    reads: list[PartitionRead],
) -> FetchResponse:
    response = FetchResponse()
    results = iter(reads)
    for topic in request.topics:
        answers = [_partition(services, context, next(results)) for _ in topic.partitions]
        response.responses.append(
            FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
        )
    if context.api_version >= _ENDPOINTS_VERSION:
        _add_endpoints(services, context, response)
    return response


def _count(services: Services, reads: list[PartitionRead], *, is_follower: bool) -> None:
    """What leaves with this answer; what was read before in vain has not left."""
    for read in reads:
        if read.size_bytes:
            traffic = services.partitions.traffic[read.wanted.topic]
            if is_follower:
                traffic.replicated_bytes += read.size_bytes
            else:
                traffic.fetched_bytes += read.size_bytes


def _add_endpoints(services: Services, context: RequestContext, response: FetchResponse) -> None:
    """Where the leaders are that were named instead (KIP-951)."""
    leaders = {
        part.current_leader.leader_id
        for topic in response.responses
        for part in topic.partitions
        if part.error_code in _MOVED
    }
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in services.metadata.endpoints(context.listener)
            if node.node_id in leaders
        ]


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
    if read.error_code in _MOVED and context.api_version >= _LEADER_VERSION:
        leader, epoch = services.metadata.leader_of(read.wanted.topic, read.wanted.partition)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    if (
        read.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        and context.api_version < _STORAGE_ERROR_VERSION
    ):
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return answer

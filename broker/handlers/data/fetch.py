"""Fetch (key 1): batches from partitions led here, for consumers and followers. Versions 4-18.

4: isolation level, last stable offset, aborted transactions. 5: log start offset. 7: sessions.
9: current leader epoch (KIP-320). 10: zstd. 11: rack, preferred replica (KIP-392). 12: last
fetched epoch, diverging epoch (KIP-595). 13: topics by id (KIP-516). 15: the follower's broker
epoch (KIP-903). 16: where the new leader is (KIP-951). 17: the directory (KIP-853). 18: the
high watermark that the replica knows (KIP-1166). Only KRaft's controllers use these two; they are
read and not looked at.

Sessions (KIP-227) are for followers and for consumers of many partitions. Others get session id 0,
which tells them to keep sending full requests.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.handlers.shared import is_from_broker
from ottla.broker.partitions.fetch_session import SessionAsk, enter_session, take_in
from ottla.broker.partitions.partition_read import FetchPlan, PartitionRead
from ottla.broker.partitions.preferred_replica import nearest_to
from ottla.protocol.acls import AclResourceType, Operation
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

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.ids import Uuid

_CONSUMER = -1
_READ_COMMITTED = 1
_ISOLATION_LEVELS = (0, _READ_COMMITTED)
_READ = Operation.READ
_TOPIC = AclResourceType.TOPIC
_ZSTD_VERSION = 10
_STORAGE_ERROR_VERSION = 6
_RACK_VERSION = 11
_TOPIC_ID_VERSION = 13
_REPLICA_STATE_VERSION = 15
_ENDPOINTS_VERSION = 16
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(services: Services, context: RequestContext, request: FetchRequest) -> Any:
    """Read at once, or wait for min_bytes until max_wait has passed."""
    replica_id, broker_epoch = request.replica_id, -1
    if context.api_version >= _REPLICA_STATE_VERSION:
        state = request.replica_state
        replica_id, broker_epoch = state.replica_id, state.replica_epoch
    is_follower = replica_id >= 0
    if request.isolation_level not in _ISOLATION_LEVELS:
        return _refused(request, ErrorCode.INVALID_REQUEST)
    part = enter_session(
        services.reads.sessions,
        services.ports.random,
        SessionAsk(
            request.session_id,
            request.session_epoch,
            owner=(context.principal, replica_id),
            # Followers' sessions are kept at the cost of others: a claim is not enough.
            is_follower=is_follower and is_from_broker(services, context, replica_id),
            uses_topic_ids=context.api_version >= _TOPIC_ID_VERSION,
        ),
        context.received_ms,
    )
    if part.error != ErrorCode.NONE:
        return FetchResponse(error_code=part.error)
    resolve = partial(_topic, services, context, replica_id)
    # A consumer's rights are looked at each time.
    rules = services.authorizer.version
    stamp = services.authorizer.stamp(services.metadata.image) if is_follower else object()
    take_in(part, request, resolve, stamp)
    max_bytes = request.max_bytes
    if services.quotas.is_active and not is_follower:
        hold_ms = services.quotas.fetch_hold_ms(context)
        if hold_ms:
            return FetchResponse(throttle_time_ms=hold_ms, session_id=part.session_id)
        max_bytes = min(max_bytes, services.quotas.fetch_bytes_max(context))
    plan = FetchPlan(
        wanted=list(part.wanted),
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        read_committed=request.isolation_level == _READ_COMMITTED,
        replica_id=replica_id,
        zstd_allowed=context.api_version >= _ZSTD_VERSION,
        broker_epoch=broker_epoch,
    )
    if is_follower and part.session is not None:
        plan.quietness = services.reads.quietness(part.session)
    if services.reads.sends_to_racks and replica_id == _CONSUMER:
        plan.may_follow = context.api_version >= _RACK_VERSION
        if request.rack_id:
            plan.nearest = nearest_to(request.rack_id, services.metadata, services.node_id)

    def respond(reads: list[PartitionRead]) -> FetchResponse:
        if services.authorizer.version != rules:
            # The access rules have changed while the request waited.
            _withhold(services, context, reads, replica_id)
        session_id, news = part.answered(reads)
        _count(services, news, is_follower=is_follower)
        if not is_follower:
            _hide_offsets_of_failed(news)
        response = _response(services, context, news)
        if context.api_version >= _ENDPOINTS_VERSION and not is_follower:
            # Followers hear of leaders from the controller.
            _add_endpoints(services, context, response)
        response.session_id = session_id
        return response

    return services.reads.fetch(context, plan, respond)


def _refused(request: FetchRequest, error: ErrorCode) -> FetchResponse:
    """The same error for all that is asked for, and for the whole where that has one."""
    return FetchResponse(
        error_code=error,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=part.partition,
                        error_code=error,
                        high_watermark=-1,
                        records=b"",
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _topic(
    services: Services, context: RequestContext, replica_id: int, named: str | Uuid
) -> tuple[str, Uuid, ErrorCode]:
    """Name, id if it was asked for by id, and why it may not be read."""
    name, topic_id = named, ZERO_UUID
    error = ErrorCode.NONE
    if not isinstance(name, str):
        topic_id = name
        name = services.metadata.topic_name(topic_id) or ""
        if not name:
            return name, topic_id, ErrorCode.UNKNOWN_TOPIC_ID
    if not _is_allowed(services, context, replica_id, name):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, topic_id, error


def _is_allowed(services: Services, context: RequestContext, replica_id: int, topic: str) -> bool:
    """Followers are brokers, on the listener of brokers; what they say moves the watermark."""
    if replica_id < 0:
        return services.authorizer.is_allowed(context, _READ, _TOPIC, topic)
    return is_from_broker(services, context, replica_id)


def _withhold(
    services: Services, context: RequestContext, reads: list[PartitionRead], replica_id: int
) -> None:
    """Take back what the caller may not read any more."""
    for read in reads:
        if not _is_allowed(services, context, replica_id, read.wanted.topic):
            read.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            read.records = read.aborted = read.diverging = None
            read.high_watermark = read.last_stable_offset = read.log_start_offset = -1
            read.preferred_replica = -1


def _hide_offsets_of_failed(reads: list[PartitionRead]) -> None:
    """An answer with an error says nothing of offsets to a consumer, as in Kafka. A follower has to
    know where the leader's log starts when its own ends before."""
    for read in reads:
        if read.error_code is not ErrorCode.NONE:
            read.high_watermark = read.last_stable_offset = read.log_start_offset = -1


def _response(
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


def _count(services: Services, reads: list[PartitionRead], *, is_follower: bool) -> None:
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
    if read.error_code in _MOVED and context.api_version >= _ENDPOINTS_VERSION:
        leader, epoch = services.metadata.leader_of(read.wanted.topic, read.wanted.partition)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    if (
        read.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        and context.api_version < _STORAGE_ERROR_VERSION
    ):
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return answer

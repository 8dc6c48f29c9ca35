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

from ottla.broker.handlers.fetch_answers import (
    ENDPOINTS_VERSION,
    MOVED,
    count_sent,
    full_response,
    may_read,
    withhold,
)
from ottla.broker.handlers.shared import is_from_broker
from ottla.broker.partitions.fetch_session import SessionAsk, enter_session, take_in
from ottla.broker.partitions.partition_read import FetchPlan, PartitionRead
from ottla.broker.partitions.preferred_replica import nearest_to
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
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
_ZSTD_VERSION = 10
_RACK_VERSION = 11
_TOPIC_ID_VERSION = 13
_REPLICA_STATE_VERSION = 15


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
            withhold(services, context, reads, replica_id)
        session_id, news = part.answered(reads)
        count_sent(services, news, is_follower=is_follower)
        if not is_follower:
            _hide_offsets_of_failed(news)
        response = full_response(services, context, news)
        if context.api_version >= ENDPOINTS_VERSION and not is_follower:
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
    if not may_read(services, context, replica_id, name):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, topic_id, error


def _hide_offsets_of_failed(reads: list[PartitionRead]) -> None:
    """An answer with an error says nothing of offsets to a consumer, as in Kafka. A follower has to
    know where the leader's log starts when its own ends before."""
    for read in reads:
        if read.error_code is not ErrorCode.NONE:
            read.high_watermark = read.last_stable_offset = read.log_start_offset = -1


def _add_endpoints(services: Services, context: RequestContext, response: FetchResponse) -> None:
    """Where the leaders are that were named instead (KIP-951)."""
    leaders = {
        part.current_leader.leader_id
        for topic in response.responses
        for part in topic.partitions
        if part.error_code in MOVED
    }
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in services.metadata.endpoints(context.listener)
            if node.node_id in leaders
        ]

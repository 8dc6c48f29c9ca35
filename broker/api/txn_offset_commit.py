"""TxnOffsetCommit (key 28): positions that count when their transaction is committed. Versions 0-5.

2: leader epochs. 3: membership, which fences zombies (KIP-447). 4: TRANSACTION_ABORTABLE allowed.
5: the offsets partition joins the transaction on the way (KIP-890). Each partition has its own
error. Not done here: topics by id (6).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.context import Paused
from ottla.broker.policy.door import Operation, ResourceType
from ottla.broker.runtime.groups import caller_of
from ottla.broker.runtime.later import gathered
from ottla.broker.runtime.txn_partition import (
    begin_verification,
    conclude,
    coordinator_epoch,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.context import RequestContext
    from ottla.broker.runtime.later import Later
    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.broker.runtime.services import Services

_LOADING_VERSION = 2
_ABORTABLE_VERSION = 4
_ADDING_VERSION = 5
_NONE = ErrorCode.NONE
ErrorOf = dict[tuple[str, int], int]
# Of the transaction's coordinator, which is another than the one that was asked: to be told that
# it is the wrong one or not there would send the producer looking for this one again.
_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)


class _Commit(NamedTuple):
    """A request, what of it was refused at sight, and what remains to be done."""

    services: Services
    context: RequestContext
    request: TxnOffsetCommitRequest
    refused: ErrorOf
    accepted: TxnOffsetCommitRequest

    @property
    def adds(self) -> bool:
        return self.context.api_version >= _ADDING_VERSION


def handle(services: Services, context: RequestContext, request: TxnOffsetCommitRequest) -> Any:
    """Answered when every in-sync replica has the positions, or that is not known in time."""
    may = services.door.is_allowed
    transactional_id, group_id = request.transactional_id, request.group_id
    if not may(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(context, Operation.READ, ResourceType.GROUP, group_id):
        return _all(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return _all(request, ErrorCode.INVALID_GROUP_ID)
    refused: ErrorOf = {}
    for topic in request.topics:
        _judge(services, context, topic, refused)
    commit = _Commit(services, context, request, refused, _without(request, refused))
    if not commit.accepted.topics:
        return _response(request, lambda place: refused[place])
    shard, error = services.groups.find(group_id)
    if shard is None:
        return _refuse(commit, error)
    if request.producer_id < 0:
        # Nobody to ask about; the group's machine says so.
        return _commit(commit)
    begun = begin_verification(
        shard.partition,
        request.producer_id,
        request.producer_epoch,
        services.ports.clock.now_ms(),
        adds=commit.adds,
    )
    if isinstance(begun, ErrorCode):
        is_moved = begun is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return _refuse(commit, ErrorCode.NOT_COORDINATOR if is_moved else begun)
    if begun is None:
        return _commit(commit)
    if not commit.adds and not services.settings.verifies_transactions:
        begun.confirm()
        return _commit(commit)
    settle = partial(conclude, shard.partition, request.producer_id, begun)
    return Paused(_verify_then_commit(commit, shard.partition, settle))


async def _verify_then_commit(
    commit: _Commit, partition: PartitionRuntime, settle: Callable[[ErrorCode], object]
) -> Any:
    """The group's machine appends in the step in which the answer has come, and its append is
    refused if a marker has ended meanwhile what was verified."""
    request = commit.request
    errors = await commit.services.verification.ask(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [partition.partition],
        adds=commit.adds,
        known_epoch=coordinator_epoch(partition, request.producer_id),
    )
    error = errors[partition.partition]
    settle(error)
    if error is not _NONE:
        return _refuse(commit, _as_told(error, commit.context.api_version))
    return _commit(commit)


def _commit(commit: _Commit) -> Later[TxnOffsetCommitResponse]:
    def refuse(error: ErrorCode) -> TxnOffsetCommitResponse:
        return _all(commit.accepted, error)

    def build(parts: list[TxnOffsetCommitResponse]) -> TxnOffsetCommitResponse:
        known = dict(commit.refused)
        for topic in parts[0].topics:
            for part in topic.partitions:
                known.setdefault((topic.name, part.partition_index), part.error_code)
        return _shaped(commit, lambda place: known[place])

    group_id, caller = commit.request.group_id, caller_of(commit.context)
    later = commit.services.groups.handle(group_id, commit.accepted, caller, refuse)
    return gathered([later], build)


def _refuse(commit: _Commit, error: ErrorCode) -> TxnOffsetCommitResponse:
    return _shaped(commit, lambda place: commit.refused.get(place, error))


def _as_told(error: ErrorCode, api_version: int) -> ErrorCode:
    """What a producer is told of its coordinator's verdict."""
    is_early = error is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < _ADDING_VERSION
    if error in _PASSING or is_early:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _judge(
    services: Services,
    context: RequestContext,
    topic: TxnOffsetCommitRequestTopic,
    refused: ErrorOf,
) -> None:
    """Note which partitions of the topic nobody may commit, or which are not there."""
    allowed = services.door.is_allowed(context, Operation.READ, ResourceType.TOPIC, topic.name)
    image = services.metadata.topic(topic.name)
    for part in topic.partitions:
        place = topic.name, part.partition_index
        if not allowed:
            refused[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image is None or part.partition_index not in image.partitions:
            refused[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _without(request: TxnOffsetCommitRequest, refused: ErrorOf) -> TxnOffsetCommitRequest:
    topics = []
    for topic in request.topics:
        partitions = [
            part for part in topic.partitions if (topic.name, part.partition_index) not in refused
        ]
        if partitions:
            topics.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions))
    return TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=topics,
    )


def _shaped(commit: _Commit, error_of: Callable[[tuple[str, int]], int]) -> TxnOffsetCommitResponse:
    """Old producers take a coordinator that is loading for the end of the world (KAFKA-7296)."""

    def told(place: tuple[str, int]) -> int:
        error = error_of(place)
        is_loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if is_loading and commit.context.api_version < _LOADING_VERSION:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    return _response(commit.request, told)


def _all(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return _response(request, lambda _place: error)


def _response(
    request: TxnOffsetCommitRequest, error_of: Callable[[tuple[str, int]], int]
) -> TxnOffsetCommitResponse:
    """An answer in the shape and order of the request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=part.partition_index,
                        error_code=error_of((topic.name, part.partition_index)),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

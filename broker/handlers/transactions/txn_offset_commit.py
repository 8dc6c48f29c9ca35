"""TxnOffsetCommit (key 28): positions that count when their transaction is committed. Versions 0-5.

2: leader epochs. 3: membership, which fences zombies (KIP-447). 4: TRANSACTION_ABORTABLE allowed.
5: the offsets partition joins the transaction on the way (KIP-890). Each partition has its own
error. Not done here: topics by id (6).
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.groups import caller_of
from ottla.broker.coordinating.txn_partition import (
    begin_verification,
    conclude,
    coordinator_epoch,
)
from ottla.broker.engine.context import Paused
from ottla.broker.engine.deferred import gathered
from ottla.broker.handlers.shared import in_order, refused_parts, with_verdicts, without
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.engine.deferred import DeferredAnswer
    from ottla.broker.handlers.services import Services
    from ottla.broker.handlers.shared import ErrorOf, TopicAndIndex
    from ottla.broker.partitions.partition import PartitionRuntime

_LOADING_VERSION = 2
_ABORTABLE_VERSION = 4
_ADDING_VERSION = 5
_NONE = ErrorCode.NONE
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
    may = services.authorizer.is_allowed
    transactional_id, group_id = request.transactional_id, request.group_id
    if not may(context, Operation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        return _all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(context, Operation.READ, AclResourceType.GROUP, group_id):
        return _all(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return _all(request, ErrorCode.INVALID_GROUP_ID)
    refused = refused_parts(services, context, request.topics)
    accepted = copy(request)
    accepted.topics = without(request.topics, refused)
    commit = _Commit(services, context, request, refused, accepted)
    if not commit.accepted.topics:
        return _response(request, refused.__getitem__)
    shard, error = services.groups.find(group_id)
    if shard is None:
        return _refuse(commit, error)
    if request.producer_id < 0:
        # There is no producer to verify; the group's state machine refuses the commit.
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
    settle = partial(conclude, shard.partition, request, begun)
    return Paused(_verify_then_commit(commit, shard.partition, settle))


async def _verify_then_commit(
    commit: _Commit, partition: PartitionRuntime, settle: Callable[[ErrorCode], ErrorCode]
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
    error = settle(errors[partition.partition])
    if error is not _NONE:
        return _refuse(commit, _as_told(error, commit.context.api_version))
    return _commit(commit)


def _commit(commit: _Commit) -> DeferredAnswer[TxnOffsetCommitResponse]:
    def refuse(error: ErrorCode) -> TxnOffsetCommitResponse:
        return _all(commit.accepted, error)

    def build(parts: list[TxnOffsetCommitResponse]) -> TxnOffsetCommitResponse:
        return _shaped(commit, with_verdicts(commit.refused, parts[0].topics))

    group_id, caller = commit.request.group_id, caller_of(commit.context)
    later = commit.services.groups.handle(group_id, commit.accepted, caller, refuse)
    return gathered([later], build)


def _refuse(commit: _Commit, error: ErrorCode) -> TxnOffsetCommitResponse:
    return _shaped(commit, lambda key: commit.refused.get(key, error))


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


def _shaped(commit: _Commit, error_of: Callable[[TopicAndIndex], int]) -> TxnOffsetCommitResponse:
    """Old producers take a coordinator that is loading for the end of the world (KAFKA-7296)."""

    def told(key: TopicAndIndex) -> int:
        error = error_of(key)
        is_loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if is_loading and commit.context.api_version < _LOADING_VERSION:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    return _response(commit.request, told)


def _all(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return _response(request, lambda _place: error)


def _response(
    request: TxnOffsetCommitRequest, error_of: Callable[[TopicAndIndex], int]
) -> TxnOffsetCommitResponse:
    topics = in_order(
        request.topics, error_of, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
    )
    return TxnOffsetCommitResponse(topics=topics)

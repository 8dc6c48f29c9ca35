"""What a transactional producer asks its coordinator after InitProducerId: AddPartitionsToTxn (24),
AddOffsetsToTxn (25), EndTxn (26); and DescribeTransactions (65) and ListTransactions (66).

AddPartitionsToTxn 0-3 comes from clients and tells of one transaction. 4-5 comes from brokers, of
many at once, and may only ask whether the partitions are in it (KIP-890). AddOffsetsToTxn 0-4,
EndTxn 0-5, DescribeTransactions 0, ListTransactions 0-2. What versions before 2 do not know,
PRODUCER_FENCED, is INVALID_PRODUCER_EPOCH in them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.groups import caller_of
from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC
from ottla.broker.engine.deferred import DeferredAnswer, gathered
from ottla.coordinator.hashing import partition_for
from ottla.coordinator.metadata.image import INTERNAL_TOPICS
from ottla.coordinator.transaction.overview import check_listing
from ottla.coordinator.transaction.requests import Added, AddToTransaction, DescribeTransaction
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages import describe_transactions as described
from ottla.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.messages.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )

_BROKERS_VERSION = 4
_FENCED_VERSION = 2
LISTED_PER_SLICE_MAX = 500

# ---- partitions and offsets join a transaction ----


def add_partitions(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Any:
    """Answered when the coordinator has it in its log, for each partition."""
    if context.api_version >= _BROKERS_VERSION:
        return _add_for_brokers(services, context, request)
    wanted = AddToTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        _partitions_of(request.v3_and_below_topics),
    )
    answer: DeferredAnswer[AddPartitionsToTxnResponse] = DeferredAnswer()

    def respond(added: Added) -> None:
        results = _results_of(added, context.api_version)
        answer.complete(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

    _add_for_client(services, context, wanted).then(respond)
    return answer


def _add_for_client(
    services: Services, context: RequestContext, wanted: AddToTransaction
) -> DeferredAnswer[Added]:
    may = services.authorizer.is_allowed
    transactional_id = wanted.transactional_id
    if not may(context, Operation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        return _all(wanted, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    refused = {}
    for topic in {partition.topic for partition in wanted.partitions}:
        # No client writes into what coordinators live on (TXN-07).
        if topic in INTERNAL_TOPICS or not may(
            context, Operation.WRITE, AclResourceType.TOPIC, topic
        ):
            refused[topic] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return _add(services, context, wanted, refused)


def _add_for_brokers(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Any:
    if not services.authorizer.is_allowed(
        context, Operation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    transactions = request.transactions
    parts = []
    for one in transactions:
        wanted = AddToTransaction(
            one.transactional_id,
            one.producer_id,
            one.producer_epoch,
            _partitions_of(one.topics),
            is_verification=one.verify_only,
            # Only a producer of version 2 leaves it to the partition to add itself.
            transaction_version=1 if one.verify_only else 2,
        )
        parts.append(_add(services, context, wanted, {}))

    def respond(answers: list[Added]) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    one.transactional_id, _results_of(added, context.api_version)
                )
                for one, added in zip(transactions, answers, strict=True)
            ]
        )

    return gathered(parts, respond)


def _add(
    services: Services,
    context: RequestContext,
    wanted: AddToTransaction,
    refused: dict[str, ErrorCode],
) -> DeferredAnswer[Added]:
    """Ask the coordinator. One partition that may not be written to, or does not exist, spoils the
    request for the others, as the producer then has to give up its transaction."""
    errors = {}
    for partition in wanted.partitions:
        error = refused.get(partition.topic)
        if error is None and services.metadata.partition(*partition) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error is not None:
            errors[partition] = error
    if errors:
        spoilt = dict.fromkeys(wanted.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        return _known(Added({**spoilt, **errors}))
    return services.transactions.handle_current(
        wanted.transactional_id,
        wanted,
        caller_of(context),
        lambda error: Added(dict.fromkeys(wanted.partitions, error)),
        context.peer,
    )


def add_offsets(
    services: Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Any:
    """The partition in which the group's offsets are kept joins the transaction."""
    may = services.authorizer.is_allowed
    transactional_id, group_id = request.transactional_id, request.group_id
    if not may(context, Operation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return AddOffsetsToTxnResponse(error_code=error)
    if not may(context, Operation.READ, AclResourceType.GROUP, group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topic = services.metadata.topic(OFFSETS_TOPIC)
    if topic is None or not topic.partitions:
        services.internal_topics.request([OFFSETS_TOPIC])
        # The client repeats it, here and not elsewhere.
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    home = TopicPartition(OFFSETS_TOPIC, partition_for(group_id, len(topic.partitions)))
    wanted = AddToTransaction(
        transactional_id, request.producer_id, request.producer_epoch, (home,)
    )
    answer: DeferredAnswer[AddOffsetsToTxnResponse] = DeferredAnswer()

    def respond(added: Added) -> None:
        error = _as_known_to(context.api_version, added.errors[home])
        answer.complete(AddOffsetsToTxnResponse(error_code=error))

    _add(services, context, wanted, {}).then(respond)
    return answer


# ---- the end of a transaction ----


def end(services: Services, context: RequestContext, request: EndTxnRequest) -> Any:
    """Answered when the outcome is decided; that it shows everywhere may take a moment longer."""
    transactional_id = request.transactional_id
    if not services.authorizer.is_allowed(
        context, Operation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return _not_ended(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return services.transactions.handle_current(
        transactional_id, request, caller_of(context), _not_ended, context.peer
    )


def _not_ended(error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=error)


# ---- looking at transactions ----


def describe(
    services: Services, context: RequestContext, request: described.DescribeTransactionsRequest
) -> Any:
    """Each transactional id as its coordinator knows it; topics that the caller may not see are
    left out."""
    may = services.authorizer.is_allowed

    def ask(transactional_id: str) -> DeferredAnswer[described.TransactionState]:
        def refuse(error: ErrorCode) -> described.TransactionState:
            return described.TransactionState(error_code=error, transactional_id=transactional_id)

        if not may(context, Operation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, transactional_id):
            return _known(refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        question = DescribeTransaction(transactional_id)
        return services.transactions.handle_current(
            transactional_id, question, caller_of(context), refuse, context.peer
        )

    may_see = services.authorizer.may_see

    def respond(states: list[described.TransactionState]) -> described.DescribeTransactionsResponse:
        for state in states:
            state.topics = [
                topic
                for topic in state.topics
                if may_see(context, Operation.DESCRIBE, AclResourceType.TOPIC, topic.topic)
            ]
        return described.DescribeTransactionsResponse(transaction_states=states)

    return gathered([ask(one) for one in request.transactional_ids], respond)


async def list_all(
    services: Services, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """Every transactional id that is coordinated here, or some; slice by slice, as for groups."""
    response = check_listing(request)
    if response.error_code:
        return response
    listing = services.transactions.listing(request)
    while found := list(islice(listing, LISTED_PER_SLICE_MAX)):
        for one in found:
            if isinstance(one, ErrorCode):
                # Half a list would look like a whole one.
                response.error_code = response.error_code or one
            elif one is not None and services.authorizer.may_see(
                context, Operation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, one.transactional_id
            ):
                response.transaction_states.append(one)
        if len(found) == LISTED_PER_SLICE_MAX:
            await services.ports.clock.sleep(0)
    if response.error_code:
        response.transaction_states.clear()
    return response


# ---- shapes ----


def _partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> tuple[TopicPartition, ...]:
    named = (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)
    return tuple(dict.fromkeys(named))


def _results_of(added: Added, version: int) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), error in added.errors.items():
        topic = topics.setdefault(name, AddPartitionsToTxnTopicResult(name))
        code = _as_known_to(version, error)
        topic.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, code))
    return list(topics.values())


def _as_known_to(version: int, error: ErrorCode) -> ErrorCode:
    if version < _FENCED_VERSION and error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _all(wanted: AddToTransaction, error: ErrorCode) -> DeferredAnswer[Added]:
    return _known(Added(dict.fromkeys(wanted.partitions, error)))


def _known(answer: Any) -> DeferredAnswer[Any]:
    later: DeferredAnswer[Any] = DeferredAnswer()
    later.complete(answer)
    return later

"""Handles ListTransactions and DescribeTransactions (KIP-664, 994, 1152)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.patterns import compile_pattern
from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_transactions import TopicData
from ottla.protocol.messages.describe_transactions import TransactionState as Described
from ottla.protocol.messages.list_transactions import ListTransactionsResponse
from ottla.protocol.messages.list_transactions import TransactionState as Listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.coordinator.effects import RequestOrigin, Ticket
    from ottla.coordinator.transaction.metadata import TransactionMetadata
    from ottla.coordinator.transaction.requests import DescribeTransaction
    from ottla.coordinator.transaction.scope import TransactionEntry, TransactionScope
    from ottla.protocol.messages.list_transactions import ListTransactionsRequest

_LABELS = {state.label for state in TransactionState}


def check_listing(request: ListTransactionsRequest) -> ListTransactionsResponse:
    """The response without transactions, with errors in the filters.

    Unknown states are listed and match nothing; an invalid pattern is an error."""
    unknown = sorted(set(request.state_filters) - _LABELS)
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    if request.transactional_id_pattern:
        try:
            compile_pattern(request.transactional_id_pattern)
        except ValueError:
            response.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
    return response


class TransactionOverview:
    """One per shard; ignores ids whose first record is not committed."""

    def __init__(self, scope: TransactionScope) -> None:
        self._scope = scope

    def listing(self, request: ListTransactionsRequest, wall_ms: int) -> Iterator[Listed | None]:
        """Yield id after id; None for one that does not match or is deleted.

        The caller may run other work between two ids, so that other requests need not wait until
        all ids of a broker are listed. ``check_listing`` has accepted the pattern."""
        matches = None
        if request.transactional_id_pattern:
            matches = compile_pattern(request.transactional_id_pattern)
        states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
        for transactional_id in list(self._scope.transactions):
            transaction = self._scope.find(transactional_id)
            known = None if transaction is None else transaction.metadata
            if (
                known is None
                or (states and known.state.label not in states)
                or (producer_ids and known.producer_id not in producer_ids)
                or not _is_as_old(known, request.duration_filter, wall_ms)
                or (matches is not None and not matches(transactional_id))
            ):
                yield None
            else:
                yield Listed(transactional_id, known.producer_id, known.state.label)

    def describe(self, request: DescribeTransaction, caller: RequestOrigin, ticket: Ticket) -> None:
        """Describe the committed state of one id."""
        del caller
        described = Described(transactional_id=request.transactional_id)
        transaction = self._scope.find(request.transactional_id)
        if not request.transactional_id:
            described.error_code = ErrorCode.INVALID_REQUEST
        elif transaction is None:
            described.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        else:
            _describe(transaction, described)
        self._scope.outbox.answer(ticket, described)


def _describe(transaction: TransactionEntry, described: Described) -> None:
    known = transaction.metadata
    assert known is not None
    described.transaction_state = known.state.label
    described.transaction_timeout_ms = known.timeout_ms
    described.transaction_start_time_ms = known.start_wall_ms
    described.producer_id = known.producer_id
    described.producer_epoch = known.producer_epoch
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(known.partitions):
        topics.setdefault(topic, []).append(partition)
    described.topics = [TopicData(topic, numbers) for topic, numbers in topics.items()]


def _is_as_old(known: TransactionMetadata, duration_ms: int, wall_ms: int) -> bool:
    """Whether the transaction began longer ago than that; True for a negative duration.

    False for an id without a transaction: Kafka counts those as begun in 1970."""
    if duration_ms < 0:
        return True
    return known.start_wall_ms >= 0 and wall_ms - known.start_wall_ms > duration_ms

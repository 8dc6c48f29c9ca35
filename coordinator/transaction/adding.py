"""Adds partitions to transactions: AddPartitionsToTxn, AddOffsetsToTxn, and verification for other
brokers (KIP-890).

Checked in this order:

| what                                              | adding             | verifying          |
|---------------------------------------------------|--------------------|--------------------|
| an empty transactional id                         | INVALID_REQUEST    | INVALID_REQUEST    |
| an unknown transactional id                       | unmapped           | unmapped           |
| moving: a record or markers are on their way      | concurrent         | see below          |
| another producer id                               | unmapped           | unmapped           |
| another epoch, older or newer (hazard T-11)       | PRODUCER_FENCED    | PRODUCER_FENCED    |
| PrepareCommit, PrepareAbort, and on its way there |                    | concurrent         |
| Ongoing, and it has them all                      | NONE               | NONE               |
| Ongoing, Empty, Complete*                         | written, then NONE | NONE for those in  |
|                                                   |                    | the transaction,   |
|                                                   |                    | abortable for each |
|                                                   |                    | that is not        |

*unmapped* is INVALID_PRODUCER_ID_MAPPING, *concurrent* CONCURRENT_TRANSACTIONS, *abortable*
TRANSACTION_ABORTABLE; the request handlers map them for older versions. If adding is *concurrent*
for a reason that passes soon, the request is held (waiting.py).

Adding is answered when the record is committed, so that the next coordinator has the partition too
(hazard T-20). The first partition begins the transaction and its timeout (TXN-15, TXN-17).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.outbox import Continuation
from ottla.coordinator.transaction.metadata import EPOCH_BUMPS_SINCE
from ottla.coordinator.transaction.records import state_record
from ottla.coordinator.transaction.replies import AddReplies, AddReply
from ottla.coordinator.transaction.scope import Alarm, PendingTransition
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.transitions import added, completed
from ottla.coordinator.transaction.waiting import WaitingRequest, WaitingRequests
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin, Ticket
    from ottla.coordinator.transaction.metadata import TransactionMetadata
    from ottla.coordinator.transaction.requests import AddToTransaction
    from ottla.coordinator.transaction.scope import TransactionEntry, TransactionScope

# Overhead of a batch and a record around key and value, plus what the records that end the
# transaction may have more: one that could be added to but never ended would hang for ever.
_BATCH_OVERHEAD_BYTES = 256


class Adding:
    """Handles AddToTransaction; one per shard."""

    def __init__(self, scope: TransactionScope) -> None:
        self.waiting = WaitingRequests(scope)
        self._scope = scope
        scope.on_moved = self._on_moved
        scope.next_after = self._next_after

    def handle(self, request: AddToTransaction, caller: RequestOrigin, ticket: Ticket) -> None:
        """Add or verify the partitions; answered with ``Added``."""
        reply = AddReply(
            self._scope.outbox, ticket, caller.api_version, partitions=request.partitions
        )
        transaction = self._scope.find(request.transactional_id)
        if not request.transactional_id:
            reply.refuse(ErrorCode.INVALID_REQUEST)
        elif transaction is None or transaction.metadata is None:
            reply.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        elif request.is_verification:
            _verify(transaction, transaction.metadata, request, reply)
        else:
            is_next = transaction.metadata.state.is_prepared and (
                transaction.ended_over == caller.connection_id != ""
            )
            asked = self.waiting.asked(request, reply, is_next=is_next)
            self._add(transaction, transaction.metadata, [asked])

    def _on_moved(self, transaction: TransactionEntry) -> None:
        held = self.waiting.take(transaction.transactional_id)
        if held:
            assert transaction.metadata is not None
            self._add(transaction, transaction.metadata, held)

    def _add(
        self,
        transaction: TransactionEntry,
        known: TransactionMetadata,
        several: list[WaitingRequest],
    ) -> None:
        """Add the partitions of all valid requests with one record."""
        if transaction.is_moving:
            # First: the producer may already have the producer id that follows.
            for asked in several:
                if _is_early(transaction, known, asked):
                    self.waiting.hold(asked)
                else:
                    asked.reply.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        move, too_large = self._judged(
            transaction, known, several, self._scope.batch_bytes_max - _BATCH_OVERHEAD_BYTES
        )
        for asked in too_large:
            asked.reply.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        if move is not None:
            self._scope.move(transaction, move)

    def _next_after(
        self, transaction: TransactionEntry, ended: TransactionMetadata
    ) -> PendingTransition | None:
        """The transition for requests that wait for the end of a transaction. It is written with
        that end: to wait until all replicas have the end would take as long again."""
        assert ended.state.is_complete
        held = self.waiting.take(transaction.transactional_id)
        if not held:
            return None
        bytes_max = self._scope.batch_bytes_max - 2 * _BATCH_OVERHEAD_BYTES
        move, too_large = self._judged(
            transaction, ended, held, bytes_max - _record_bytes(transaction, ended)
        )
        for asked in too_large:
            self.waiting.hold(asked)
        return move

    def _judged(
        self,
        transaction: TransactionEntry,
        known: TransactionMetadata,
        several: list[WaitingRequest],
        bytes_max: int,
    ) -> tuple[PendingTransition | None, list[WaitingRequest]]:
        """The transition that adds the valid requests, None if nothing is to be written, and the
        requests for which the record has no room."""
        is_begun = known.state is TransactionState.ONGOING
        after, replies, too_large = known, [], []
        for asked in several:
            request, reply = asked.request, asked.reply
            error = _check_producer(known, request)
            if error is not ErrorCode.NONE:
                reply.refuse(error)
            elif is_begun and known.partitions.issuperset(request.partitions):
                reply.accept()
            elif _record_bytes(transaction, joined := self._joined(known, after, request)) > (
                bytes_max
            ):
                too_large.append(asked)
            else:
                after = joined
                replies.append(reply)
        move = self._move(transaction, known, after, AddReplies(replies)) if replies else None
        return move, too_large

    def _joined(
        self, known: TransactionMetadata, after: TransactionMetadata, request: AddToTransaction
    ) -> TransactionMetadata:
        is_first = after is known
        bumps_epochs = request.transaction_version >= EPOCH_BUMPS_SINCE or (
            not is_first and after.bumps_epochs
        )
        client_version = EPOCH_BUMPS_SINCE if bumps_epochs else 0
        partitions = after.partitions.union(request.partitions)
        return added(known, partitions, client_version, self._scope.moment.wall_ms)

    def _move(
        self,
        transaction: TransactionEntry,
        before: TransactionMetadata,
        after: TransactionMetadata,
        reply: AddReplies,
    ) -> PendingTransition:
        assert (after.producer_id, after.producer_epoch) == (
            before.producer_id,
            before.producer_epoch,
        )
        assert reply.replies, "a record that no producer asked for"
        scope = self._scope
        asked_ms = scope.moment.now_ms

        def on_committed() -> None:
            assert transaction.metadata is after
            if before.state is not TransactionState.ONGOING:
                due_ms = asked_ms + after.timeout_ms
                scope.deadlines.set((transaction.transactional_id, Alarm.TIMEOUT), due_ms)
            reply.accept()

        return PendingTransition(after, Continuation(on_committed, reply.refuse, reply.on_overdue))


def _record_bytes(transaction: TransactionEntry, metadata: TransactionMetadata) -> int:
    key, value = state_record(transaction.transactional_id, metadata)
    assert value is not None
    return len(key) + len(value)


def _verify(
    transaction: TransactionEntry,
    known: TransactionMetadata,
    request: AddToTransaction,
    reply: AddReply,
) -> None:
    error = _check_producer(known, request)
    # Kafka lets this pass while the verdict is being written and relies on the partition's
    # guard alone.
    is_ending = transaction.pending not in (None, TransactionState.ONGOING)
    if error is not ErrorCode.NONE:
        reply.refuse(error)
    elif known.state.is_prepared or (known.state is TransactionState.ONGOING and is_ending):
        reply.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    else:
        reply.tell(
            {
                partition: ErrorCode.NONE
                if partition in known.partitions
                else ErrorCode.TRANSACTION_ABORTABLE
                for partition in request.partitions
            }
        )


def _is_early(
    transaction: TransactionEntry, known: TransactionMetadata, asked: WaitingRequest
) -> bool:
    """Whether the request will be valid once the id has moved.

    While the transaction of a classic producer ends, only a request that follows the end over the
    same connection qualifies. Any other with the same epoch may be late, and would begin a
    transaction that no producer ends (hazard T-13)."""
    if known.state.is_prepared:
        next_one = completed(known, known.last_update_wall_ms)
        is_next = known.bumps_epochs or asked.is_next
        return is_next and _check_producer(next_one, asked.request) is ErrorCode.NONE
    is_added = transaction.pending is TransactionState.ONGOING
    return is_added and _check_producer(known, asked.request) is ErrorCode.NONE


def _check_producer(known: TransactionMetadata, request: AddToTransaction) -> ErrorCode:
    if known.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE

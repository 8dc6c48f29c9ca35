"""Partitions join a transaction: AddPartitionsToTxn and AddOffsetsToTxn, and the question of other
brokers whether they have (KIP-890).

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
TRANSACTION_ABORTABLE; the faces put them into the words of older versions.

Adding is answered when the record is committed: who was told that a partition is in finds it so at
the next coordinator, too (hazard T-20). The first one begins the transaction and its timeout
(TXN-15, TXN-17).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.outbox import Continuation
from ottla.coordinator.transaction.metadata import EPOCH_BUMPS_SINCE
from ottla.coordinator.transaction.records import encode_key, encode_value
from ottla.coordinator.transaction.replies import AddReply
from ottla.coordinator.transaction.scope import Alarm
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.transitions import added
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.effects import Caller, Ticket
    from ottla.coordinator.transaction.metadata import TransactionMetadata
    from ottla.coordinator.transaction.requests import AddToTransaction
    from ottla.coordinator.transaction.scope import Scope, Transaction

# Of a batch and a record around key and value, and what the records that end the transaction may
# have more than this one: one that could be added to but never ended would hang for ever.
_BATCH_OVERHEAD_BYTES = 256


class Adding:
    """One per shard."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def handle(self, request: AddToTransaction, caller: Caller, ticket: Ticket) -> None:
        """Answered with ``Added``."""
        reply = AddReply(
            self._scope.outbox, ticket, caller.api_version, partitions=request.partitions
        )
        transaction = self._scope.find(request.transactional_id)
        if not request.transactional_id:
            reply.refuse(ErrorCode.INVALID_REQUEST)
        elif transaction is None or transaction.metadata is None:
            reply.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        elif request.is_verification:
            self._verify(transaction, transaction.metadata, request, reply)
        else:
            self._add(transaction, transaction.metadata, request, reply)

    def _verify(
        self,
        transaction: Transaction,
        known: TransactionMetadata,
        request: AddToTransaction,
        reply: AddReply,
    ) -> None:
        error = _check_producer(known, request)
        # Kafka lets this pass while the verdict is being written, and relies on the guard at the
        # partition alone.
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

    def _add(
        self,
        transaction: Transaction,
        known: TransactionMetadata,
        request: AddToTransaction,
        reply: AddReply,
    ) -> None:
        if transaction.is_moving:
            # First of all: the producer may already have the id that it will go on with.
            reply.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        error = _check_producer(known, request)
        is_begun = known.state is TransactionState.ONGOING
        if error is not ErrorCode.NONE:
            reply.refuse(error)
        elif is_begun and known.partitions.issuperset(request.partitions):
            reply.accept()
        else:
            client_version = request.transaction_version
            if client_version < EPOCH_BUMPS_SINCE:
                client_version = 0
            wall_ms = self._scope.moment.wall_ms
            after = added(known, request.partitions, client_version, wall_ms)
            self._write(transaction, after, reply)

    def _write(self, transaction: Transaction, after: TransactionMetadata, reply: AddReply) -> None:
        scope = self._scope
        transactional_id = transaction.transactional_id
        record_bytes = len(encode_key(transactional_id)) + len(encode_value(after))
        if record_bytes + _BATCH_OVERHEAD_BYTES > scope.batch_bytes_max:
            reply.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        before, asked_ms = transaction.metadata, scope.moment.now_ms

        def on_committed() -> None:
            if before is None or before.state is not TransactionState.ONGOING:
                due_ms = asked_ms + after.timeout_ms
                scope.deadlines.set((transactional_id, Alarm.TIMEOUT), due_ms)
            reply.accept()

        outcome = Continuation(on_committed, reply.refuse, reply.on_overdue)
        scope.move(transaction, after, outcome)


def _check_producer(known: TransactionMetadata, request: AddToTransaction) -> ErrorCode:
    if known.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE

"""InitProducerId: assigns a producer id and epoch and fences the previous producer.

Versions 0-5. From 3 on a producer that continues after an error sends its id and epoch (KIP-360);
both are -1 when it has just started, and then it always wins: it gets the highest epoch (TXN-02).
Decisions by the state of the id, "had" being what the request carries:

| state, epoch                    | had nothing     | had the current | had the last | other     |
|---------------------------------|-----------------|-----------------|--------------|-----------|
| unknown                         | new id, epoch 0 | new id, epoch 0 | new id, 0    | new id, 0 |
| moving: a record is on its way  | concurrent      | concurrent      | concurrent   | concurr.  |
| PrepareCommit, PrepareAbort     | concurrent      | concurrent      | concurrent   | concurr.  |
| Ongoing                         | fence           | fence           | fenced       | fenced    |
| Empty, Complete*, below 32766   | epoch + 1       | epoch + 1       | as it is     | fenced    |
| Empty, Complete*, from 32766 on | new id, epoch 0 | new id, epoch 0 | as it is     | fenced    |

- *had* compares the epoch under the current producer id; the *last* may also be an exhausted epoch
  of the previous producer id. Another producer id is always *other*.
- *as it is*: the response was lost, so it is repeated.
- *fence*: the open transaction is aborted with a raised epoch (TXN-04, TXN-13) that no producer
  gets; the producer gets CONCURRENT_TRANSACTIONS, retries, and raises the epoch once more.
- *new id, epoch 0*: for an unknown id, or when the next epoch would be the one kept for fencing.

Kafka also aborts a newer producer's open transaction for a producer with an older epoch; here the
latter is refused at once (hazard T-11).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.outbox import Continuation
from ottla.coordinator.transaction.metadata import (
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    is_exhausted,
)
from ottla.coordinator.transaction.replies import InitReply
from ottla.coordinator.transaction.scope import (
    PendingTransition,
    TransactionEntry,
    TransactionScope,
)
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.transitions import initialised, rotated
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.primitives import STRING_BYTES_MAX

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin, Ticket
    from ottla.coordinator.transaction.ending import Ending
    from ottla.protocol.messages.init_producer_id import InitProducerIdRequest


class _Asked(NamedTuple):
    """One request: its timeout, and the producer's previous id and epoch, -1 if it had none."""

    reply: InitReply
    timeout_ms: int
    producer_id: int
    producer_epoch: int

    @property
    def had_nothing(self) -> bool:
        return self.producer_id == NO_PRODUCER_ID


class Initialising:
    """Handles InitProducerId; one per shard."""

    def __init__(self, scope: TransactionScope, ending: Ending) -> None:
        self._scope = scope
        self._ending = ending

    def handle(self, request: InitProducerIdRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        """Assign; answered when the producer id and epoch are committed (TXN-11)."""
        transactional_id = request.transactional_id
        assert transactional_id is not None, "producers without an id need no coordinator"
        reply = InitReply(self._scope.outbox, ticket, caller.api_version)
        asked = _Asked(
            reply, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
        error = self._check(transactional_id, asked)
        if error is not ErrorCode.NONE:
            reply.refuse(error)
            return
        transaction = self._scope.transactions.get(transactional_id)
        if transaction is None:
            transaction = TransactionEntry(transactional_id)
            self._scope.transactions[transactional_id] = transaction
        if transaction.is_moving:
            reply.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif transaction.metadata is None:
            self._rotate(transaction, asked)
        else:
            self._go_on(transaction, transaction.metadata, asked)

    def _check(self, transactional_id: str, asked: _Asked) -> ErrorCode:
        has_epoch = asked.producer_epoch != NO_EPOCH
        if asked.had_nothing == has_epoch:
            return ErrorCode.INVALID_REQUEST
        if not 0 < len(transactional_id.encode()) <= STRING_BYTES_MAX:
            return ErrorCode.INVALID_REQUEST
        if not 0 < asked.timeout_ms <= self._scope.settings.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE

    def _go_on(
        self, transaction: TransactionEntry, known: TransactionMetadata, asked: _Asked
    ) -> None:
        """Handle a request for an id that is in use."""
        assert not transaction.is_moving, "its producer may have the epoch that follows"
        reply = asked.reply
        if not _may_be_known(known, asked):
            reply.refuse(ErrorCode.PRODUCER_FENCED)
        elif known.state is TransactionState.ONGOING:
            if asked.had_nothing or _is_current(known, asked):
                told = Continuation(
                    partial(reply.refuse, ErrorCode.CONCURRENT_TRANSACTIONS),
                    reply.refuse,
                    reply.on_overdue,
                )
                self._ending.fence(transaction, told, is_replaced=asked.had_nothing)
            else:
                reply.refuse(ErrorCode.PRODUCER_FENCED)
        elif asked.had_nothing or _is_current(known, asked):
            self._raise(transaction, known, asked)
        elif _is_retry(known, asked):
            self._give(transaction, known, asked, known.producer_epoch)
        else:
            reply.refuse(ErrorCode.PRODUCER_FENCED)

    def _raise(
        self, transaction: TransactionEntry, known: TransactionMetadata, asked: _Asked
    ) -> None:
        if known.is_exhausted:
            self._rotate(transaction, asked)
        else:
            self._give(transaction, known, asked, known.producer_epoch + 1)

    def _give(
        self,
        transaction: TransactionEntry,
        known: TransactionMetadata,
        asked: _Asked,
        producer_epoch: int,
    ) -> None:
        """Assign an epoch of the same producer id; the current one if its response was lost."""
        assert producer_epoch >= known.producer_epoch, "a fenced producer would be let in again"
        if producer_epoch == known.producer_epoch:
            last_epoch = known.last_producer_epoch
        else:
            last_epoch = NO_EPOCH if asked.had_nothing else known.producer_epoch
        wall_ms = self._scope.moment.wall_ms
        after = initialised(known, producer_epoch, last_epoch, asked.timeout_ms, wall_ms)
        self._move(transaction, after, asked.reply)

    def _rotate(self, transaction: TransactionEntry, asked: _Asked) -> None:
        """Assign a new producer id."""

        def on_drawn() -> None:
            producer_id = transaction.spare_producer_id
            assert producer_id >= 0
            wall_ms = self._scope.moment.wall_ms
            known = transaction.metadata
            if known is None:
                after = TransactionMetadata(producer_id, 0, asked.timeout_ms)
                after = after._replace(last_update_wall_ms=wall_ms)
            else:
                last_epoch = NO_EPOCH if asked.had_nothing else known.producer_epoch
                after = rotated(known, producer_id, last_epoch, asked.timeout_ms, wall_ms)
            self._move(transaction, after, asked.reply)

        scope = self._scope
        scope.draw(transaction, TransactionState.EMPTY, on_drawn, asked.reply.refuse)

    def _move(
        self, transaction: TransactionEntry, after: TransactionMetadata, reply: InitReply
    ) -> None:
        def on_committed() -> None:
            # The answer names what the log has (TXN-11).
            assert transaction.metadata is after
            if transaction.spare_producer_id == after.producer_id:
                transaction.spare_producer_id = NO_PRODUCER_ID
            reply.accept(after.producer_id, after.producer_epoch)

        outcome = Continuation(on_committed, reply.refuse, reply.on_overdue)
        self._scope.move(transaction, PendingTransition(after, outcome))


def _is_current(known: TransactionMetadata, asked: _Asked) -> bool:
    is_same = asked.producer_id == known.producer_id
    # No producer ever received an id without an epoch: any request carries an older one.
    return known.producer_epoch == NO_EPOCH or (
        is_same and asked.producer_epoch == known.producer_epoch
    )


def _is_retry(known: TransactionMetadata, asked: _Asked) -> bool:
    """Whether this producer was assigned the current epoch and did not get the response.

    Initialising another producer would have set the last epoch to -1."""
    return asked.producer_epoch == known.last_producer_epoch and known.producer_epoch < EPOCH_MAX


def _may_be_known(known: TransactionMetadata, asked: _Asked) -> bool:
    """Whether the request's producer id is still valid for this transactional id."""
    return (
        asked.had_nothing
        or known.producer_epoch == NO_EPOCH
        or asked.producer_id == known.producer_id
        or (asked.producer_id == known.previous_producer_id and is_exhausted(asked.producer_epoch))
    )

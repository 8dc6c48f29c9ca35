"""Decides how transactions end: EndTxn and the coordinator's own aborts.

The verdict is written first (PREPARE, TXN-23), then the producer is answered, then every partition
gets its marker, then the end is written (completing.py). In the tables C stands for
CONCURRENT_TRANSACTIONS, I for INVALID_TXN_STATE, F for PRODUCER_FENCED, "end" writes the verdict,
"ok" answers NONE and writes nothing. An empty transactional id is INVALID_REQUEST, an unknown one
or another producer id INVALID_PRODUCER_ID_MAPPING.

Classic, versions 0-4: the epoch stays, so any epoch but the current one is F; C while a record or
markers are being written. A repetition looks like the next transaction's verdict (hazard T-12,
which version 2 fixes).

| classic | Empty | Ongoing | Prepare* | CompleteCommit | CompleteAbort |
|---------|-------|---------|----------|----------------|---------------|
| commit  | I     | end     | C        | ok             | I             |
| abort   | I     | end     | C        | I              | ok            |

Transaction version 2, from version 5 on: the verdict raises the epoch and returns the raised one,
or epoch 0 of another producer id when the epochs are used up. So the epoch distinguishes a
repetition, which carries the *last* one, from a new verdict, which carries the *current* one. A
producer that does not know whether its partitions were added may abort without a transaction.

| version 2     | Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort |
|---------------|-------|---------|---------------|--------------|----------------|---------------|
| commit, curr. | I     | end     | C             | C            | I              | I             |
| commit, last  | F     | F       | ok            | I            | ok             | I             |
| abort, curr.  | end   | end     | C             | C            | end            | end           |
| abort, last   | F     | F       | I             | ok           | I              | ok            |

While a record or markers are being written, any request but a repetition is C: the producer may
already know its next producer id and epoch. A repetition gets the first response again as soon as
the verdict is committed (TXN-60); in Kafka it is C while a partition cannot be reached. "Last" is
the epoch that version 2 has raised to the current one: the one below, or 32766 of the previous
producer id if the current epoch is 0. Every other epoch is F. Kafka also accepts the epoch one
below as the last one if a classic end came in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.outbox import Continuation
from ottla.coordinator.transaction.metadata import (
    EPOCH_BUMPS_SINCE,
    LAST_USABLE_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from ottla.coordinator.transaction.replies import EndReply
from ottla.coordinator.transaction.scope import PendingTransition
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.transitions import completed, prepared, prepared_classic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.effects import RequestOrigin, Ticket
    from ottla.coordinator.transaction.completing import Completing
    from ottla.coordinator.transaction.scope import TransactionEntry, TransactionScope
    from ottla.protocol.messages.end_txn import EndTxnRequest

VERSION_2_SINCE = 5
"""The first version of EndTxn whose senders take the raised epoch from the answer."""


class EndVerdict(NamedTuple):
    """The decision about EndTxn: ``is_new``, to be written, or the error to answer."""

    is_new: bool
    error: ErrorCode = ErrorCode.NONE


class _Ended(NamedTuple):
    """An end with a raised epoch: the pending state, and whether the producer may repeat its
    request with the previous epoch."""

    pending: TransactionState
    is_commit: bool
    may_repeat: bool = True


_COMMITTED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT})
_END = EndVerdict(True)
_DONE = EndVerdict(False)
_CONCURRENT = EndVerdict(False, ErrorCode.CONCURRENT_TRANSACTIONS)
_INVALID = EndVerdict(False, ErrorCode.INVALID_TXN_STATE)
_FENCED = EndVerdict(False, ErrorCode.PRODUCER_FENCED)
_UNMAPPED = EndVerdict(False, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


class Ending:
    """Handles EndTxn and aborts; one per shard."""

    def __init__(self, scope: TransactionScope, completing: Completing) -> None:
        self._scope = scope
        self._completing = completing

    def handle(self, request: EndTxnRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        """Decide; answered when the verdict is committed."""
        reply = EndReply(self._scope.outbox, ticket, caller.api_version)
        transaction = self._scope.find(request.transactional_id)
        if not request.transactional_id:
            reply.refuse(ErrorCode.INVALID_REQUEST)
            return
        if transaction is None or transaction.metadata is None:
            reply.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        is_classic = caller.api_version < VERSION_2_SINCE
        judge = judge_classic if is_classic else judge_version_2
        known = transaction.metadata
        verdict = judge(known, request, is_moving=transaction.is_moving)
        if verdict.error is not ErrorCode.NONE:
            reply.refuse(verdict.error)
        elif not verdict.is_new and is_classic:
            reply.accept()
        elif not verdict.is_new:
            reply.accept(*_next_producer(known))
        elif is_classic:
            self._end_classic(transaction, request.committed, caller.connection_id, reply)
        else:
            self._end(transaction, request.committed, reply)

    def fence(
        self, transaction: TransactionEntry, then: Continuation, *, is_replaced: bool
    ) -> None:
        """Abort an open transaction with a raised epoch, so that its producer cannot continue it
        (TXN-54, TXN-57). ``then`` gets the outcome of the verdict, not of the end.

        Always as in version 2: a marker with a raised epoch is unambiguous for any producer. A
        producer of version 2 may then abort and continue with the raised epoch, except one that is
        replaced: it could begin again and again while its successor waits for the fenced
        transaction to end. Kafka does not distinguish the two, nor does the log: the next
        coordinator treats both as not replaced."""
        known = transaction.metadata
        assert known is not None
        assert known.state is TransactionState.ONGOING
        ended = _Ended(TransactionState.PREPARE_EPOCH_FENCE, False, may_repeat=not is_replaced)
        self._prepare(transaction, ended, then)

    def _end_classic(
        self,
        transaction: TransactionEntry,
        is_commit: bool,
        connection_id: str,
        reply: EndReply,
    ) -> None:
        known = transaction.metadata
        assert known is not None
        assert known.state is TransactionState.ONGOING
        wall_ms = self._scope.moment.wall_ms
        after = prepared_classic(known, is_commit=is_commit, wall_ms=wall_ms)

        def on_committed() -> None:
            transaction.ended_over = connection_id
            reply.accept()
            self._completing.start(transaction)

        outcome = Continuation(on_committed, reply.refuse, reply.on_overdue)
        self._scope.move(transaction, PendingTransition(after, outcome))

    def _end(self, transaction: TransactionEntry, is_commit: bool, reply: EndReply) -> None:
        def on_committed() -> None:
            known = transaction.metadata
            assert known is not None
            reply.accept(*_next_producer(known))

        pending = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        told = Continuation(on_committed, reply.refuse, reply.on_overdue)
        self._prepare(transaction, _Ended(pending, is_commit), told)

    def _prepare(self, transaction: TransactionEntry, ended: _Ended, then: Continuation) -> None:
        """Write the verdict with a raised epoch, and with another producer id if the epochs are
        used up."""
        known = transaction.metadata
        assert known is not None

        def write() -> None:
            assert transaction.metadata is known, "the verdict is about another transaction"
            has_next = known.is_exhausted
            after = prepared(
                known,
                is_commit=ended.is_commit,
                next_producer_id=transaction.spare_producer_id if has_next else NO_PRODUCER_ID,
                client_version=EPOCH_BUMPS_SINCE,
                wall_ms=self._scope.moment.wall_ms,
            )
            if not ended.may_repeat:
                after = after._replace(last_producer_epoch=NO_EPOCH)
            outcome = Continuation(on_committed, then.on_failed, late)
            self._scope.move(transaction, PendingTransition(after, outcome))

        def on_committed() -> None:
            if known.is_exhausted:
                # No other id gets the producer id that the record names (hazard T-10).
                assert transaction.metadata is not None
                assert transaction.metadata.next_producer_id == transaction.spare_producer_id
                transaction.spare_producer_id = NO_PRODUCER_ID
            then.on_committed()
            self._completing.start(transaction)

        late = then.on_overdue
        if known.is_exhausted:
            self._scope.draw(transaction, ended.pending, write, then.on_failed)
        else:
            write()


def judge_classic(
    known: TransactionMetadata, request: EndTxnRequest, *, is_moving: bool
) -> EndVerdict:
    """The first table."""
    if request.producer_id != known.producer_id:
        return _UNMAPPED
    if request.producer_epoch != known.producer_epoch:
        return _FENCED
    if is_moving:
        return _CONCURRENT
    if known.state is TransactionState.ONGOING:
        return _END
    return _repeated(known, request)


def judge_version_2(
    known: TransactionMetadata, request: EndTxnRequest, *, is_moving: bool
) -> EndVerdict:
    """The second table."""
    # After a classic end the previous epoch belongs to a producer that was replaced: it would get
    # its successor's epoch, and both could continue (TXN-03).
    last_epoch = known.last_producer_epoch if known.bumps_epochs else NO_EPOCH
    is_last = request.producer_epoch == last_epoch != NO_EPOCH
    if known.state.is_prepared and is_last and request.producer_id == known.producer_id:
        return _repeated(known, request)
    if is_moving:
        return _CONCURRENT
    is_current = request.producer_epoch == known.producer_epoch
    has_overflowed = (
        request.producer_id == known.previous_producer_id != known.producer_id
        and request.producer_epoch == LAST_USABLE_EPOCH
        and known.producer_epoch == 0
        and known.state.is_complete
    )
    if request.producer_id != known.producer_id and not has_overflowed:
        return _UNMAPPED
    if known.state.is_complete and is_last:
        return _repeated(known, request)
    if not is_current:
        return _FENCED
    if known.state is TransactionState.ONGOING or not request.committed:
        return _END
    return _INVALID


def _repeated(known: TransactionMetadata, request: EndTxnRequest) -> EndVerdict:
    """The response to a repetition; INVALID_TXN_STATE if it contradicts the verdict."""
    assert known.state is not TransactionState.ONGOING, "it has no verdict yet"
    if known.state is TransactionState.EMPTY:
        return _INVALID
    was_committed = known.state in _COMMITTED
    return _DONE if request.committed == was_committed else _INVALID


def _next_producer(known: TransactionMetadata) -> tuple[int, int]:
    """What a producer of version 2 continues with after a verdict, without waiting for markers."""
    after = completed(known, known.last_update_wall_ms) if known.state.is_prepared else known
    return after.producer_id, after.producer_epoch

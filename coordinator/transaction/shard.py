"""All transactional ids of one partition of ``__transaction_state``: the coordinator's interface.

The caller passes the log, then requests, outcomes and the time; the shard returns the effects.
Requests are decided in initialising.py, adding.py, ending.py and overview.py, completing.py
completes decided transactions, timing.py handles timeouts and expiry. Every decision is written
first and takes effect when it is committed; until then other requests for its id must retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.effects import NOBODY
from ottla.coordinator.shard import CoordinatorShard
from ottla.coordinator.transaction.adding import Adding
from ottla.coordinator.transaction.completing import Completing
from ottla.coordinator.transaction.ending import Ending
from ottla.coordinator.transaction.initialising import Initialising
from ottla.coordinator.transaction.overview import TransactionOverview
from ottla.coordinator.transaction.records import decode_record
from ottla.coordinator.transaction.requests import AddToTransaction, DescribeTransaction
from ottla.coordinator.transaction.scope import Alarm, TransactionEntry, TransactionScope
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.timing import IdExpiry, Timeouts
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.coordinator.effects import (
        Effects,
        LogRecord,
        Moment,
        RequestOrigin,
        Ticket,
        Token,
        Writer,
    )
    from ottla.coordinator.transaction.effects import TransactionEffects
    from ottla.coordinator.transaction.settings import TransactionSettings
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.list_transactions import ListTransactionsRequest
    from ottla.protocol.messages.list_transactions import TransactionState as Listed


class TransactionShard(CoordinatorShard["TransactionEffects"]):
    """Created empty when a broker begins to lead a partition, loaded by ``replay``, dropped when
    its leader epoch ends (hazard T-21).

    Every call returns the effects to execute, in order; the shard executes none itself."""

    scope: TransactionScope

    def __init__(self, settings: TransactionSettings) -> None:
        self.scope = TransactionScope(settings)
        self._completing = Completing(self.scope)
        self._adding = Adding(self.scope)
        ending = Ending(self.scope, self._completing)
        self._timeouts = Timeouts(self.scope, ending)
        self._expiry = IdExpiry(self.scope)
        self._overview = TransactionOverview(self.scope)
        self._handlers: dict[type, Callable[[Any, RequestOrigin, Ticket], object]] = {
            InitProducerIdRequest: Initialising(self.scope, ending).handle,
            AddToTransaction: self._adding.handle,
            EndTxnRequest: ending.handle,
            DescribeTransaction: self._overview.describe,
        }

    @property
    def must_reload(self) -> bool:
        """Never: memory changes only when a record is committed."""
        return False

    def limit_batches(self, limit: Callable[[], int]) -> None:
        """Set the function that returns the log's present size limit of a batch, in bytes."""
        self.scope.batch_limit = limit

    # Loading.

    def replay(
        self, record: LogRecord, writer: Writer = NOBODY, moment: Moment | None = None
    ) -> None:
        """Apply one record of the log while loading; HOT. Not for records that were appended
        through the effects: for those call ``committed``."""
        del writer, moment
        read = decode_record(record, self.scope.skipped)
        if read is None:
            return
        transactional_id, metadata = read
        if metadata is None:
            self.scope.transactions.pop(transactional_id, None)
        else:
            self.scope.transactions[transactional_id] = TransactionEntry(transactional_id, metadata)

    def replay_marker(
        self, producer_id: int, producer_epoch: int, committed: bool, moment: Moment | None = None
    ) -> None:
        """Does nothing: this log has no transactional batches."""

    def on_loaded(self, moment: Moment) -> TransactionEffects:
        """The log is read to its end: complete decided transactions, writing all their markers
        again (TXN-51), and start the timers of open ones."""
        assert not self.scope.outbox.waits, "nothing is written before the log is read"
        self.scope.moment = moment
        for transaction in self.scope.transactions.values():
            assert transaction.metadata is not None
            if transaction.metadata.state.is_prepared:
                self._completing.start(transaction)
            elif transaction.metadata.state is TransactionState.ONGOING:
                self._timeouts.on_loaded(transaction)
        self._expiry.set_alarm()
        return self.scope.outbox.take_all()

    # Running.

    def handle(
        self, request: Any, caller: RequestOrigin, ticket: Ticket, moment: Moment
    ) -> TransactionEffects:
        """Handle one request about an id of this shard: InitProducerId, AddToTransaction, EndTxn,
        DescribeTransaction. The responses have the error codes of ``caller.api_version``."""
        self.scope.moment = moment
        self._handlers[type(request)](request, caller, ticket)
        return self.scope.outbox.take_all()

    def _take(self) -> TransactionEffects:
        return self.scope.outbox.take_all()

    def drawn(
        self, token: Token, producer_id: int, error: ErrorCode, moment: Moment
    ) -> TransactionEffects:
        """The result of a DrawId: an unused producer id, or -1 and an error."""
        self.scope.moment = moment
        self.scope.outbox.drawn(token, producer_id, error)
        return self.scope.outbox.take_all()

    def markers_written(self, token: Token, moment: Moment) -> TransactionEffects:
        """Every partition of a WriteMarkers has its marker or is deleted."""
        self.scope.moment = moment
        self.scope.outbox.markers_written(token)
        return self.scope.outbox.take_all()

    def markers_refused(
        self, token: Token, partitions: tuple[TopicPartition, ...], moment: Moment
    ) -> TransactionEffects:
        """These partitions know a newer coordinator, or a newer epoch of the producer; all others
        have their marker or are deleted."""
        self.scope.moment = moment
        self.scope.outbox.markers_refused(token, partitions)
        return self.scope.outbox.take_all()

    def next_deadline_ms(self) -> float | None:
        """When ``on_deadline`` is due, on the monotonic clock; None if no deadline is set."""
        return self.scope.deadlines.next_deadline_ms()

    def on_deadline(self, moment: Moment) -> TransactionEffects:
        """Handle due deadlines. May be called early."""
        self.scope.moment = moment
        # Deadlines set to this same moment meanwhile are taken by the next call.
        for transactional_id, alarm in self.scope.deadlines.expired(moment.now_ms):
            transaction = self.scope.transactions.get(transactional_id)
            if alarm is Alarm.EXPIRY:
                self._expiry.on_alarm()
            elif transaction is None:
                continue
            elif alarm is Alarm.TIMEOUT:
                self._timeouts.on_alarm(transaction)
            elif alarm is Alarm.WAITING:
                self._adding.waiting.on_alarm(transactional_id)
            else:
                self._completing.on_alarm(transaction)
        return self.scope.outbox.take_all()

    def on_topics_changed(self, moment: Moment) -> TransactionEffects:
        """No effects: the broker's marker sender detects deleted partitions."""
        self.scope.moment = moment
        return []

    def unload(self, error: ErrorCode) -> Effects:
        """End the shard; returns only answers, one for each waiting request."""
        # Before the appends fail: held requests would be written now.
        self._adding.waiting.refuse_all(error)
        self.scope.outbox.fail_all(error)
        return self.scope.outbox.take_answers()

    # Reports.

    def listing(
        self, request: ListTransactionsRequest, moment: Moment | None = None
    ) -> Iterator[Listed | None]:
        """ListTransactions, id after id: None for one that does not match. The caller may run other
        work in between. Without a moment, ages count up to the last call."""
        moment = self.scope.moment if moment is None else moment
        return self._overview.listing(request, moment.wall_ms)

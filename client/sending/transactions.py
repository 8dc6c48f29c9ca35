"""Sends the transactional requests of a sender to coordinators.

One request at a time, without a time limit: a call of the application that times out leaves its
work running, and the same call again reports the outcome. ``transaction_verdict`` decides what
errors mean.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from ottla.client.cluster.coordinators import TRANSACTION, Coordinators
from ottla.client.cluster.routing import Router
from ottla.client.process.errors import (
    AbortRequired,
    ProducerFenced,
    ProducerUnusable,
    TransactionAborted,
    TransactionError,
    TransactionMisuse,
    TransactionTimedOut,
)
from ottla.client.sending.coordinator_requests import AskOffsets
from ottla.client.sending.deliveries import WHILE_COMPLETING
from ottla.client.sending.transaction import ProducerTransaction
from ottla.client.sending.transaction_link import TransactionWire
from ottla.client.sending.transaction_states import LEGAL, Call, ProducerTransactionState
from ottla.client.sending.transaction_verdict import FENCING, Judgement
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import ClientError, RequestRefused, TransportError, UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.records.committed import Committed, ConsumerGroupMetadata
    from ottla.client.sending.coordinator_requests import Ask
    from ottla.client.sending.sequences import ProducerIdentity
    from ottla.client.settings.config import ProducerConfig
    from ottla.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

# The states in which a call has not ended yet.
UNDER_WAY = {
    Call.INITIALIZE: frozenset({ProducerTransactionState.INITIALIZING}),
    Call.COMMIT: frozenset(
        {ProducerTransactionState.COMMITTING, ProducerTransactionState.RENEWING}
    ),
    Call.ABORT: frozenset({ProducerTransactionState.ABORTING, ProducerTransactionState.RENEWING}),
}


class Records(Protocol):
    """What the sender provides."""

    @property
    def has_unresolved(self) -> bool:
        """Whether some batch is unresolved."""

    def begin_epoch(self, identity: ProducerIdentity) -> None:
        """Number later batches under this identity."""

    def wake(self) -> None:
        """Let the pump check what there is to do."""


class PendingCall(NamedTuple):
    """A call whose end has not been reported to the application yet."""

    call: Call
    future: asyncio.Future[None]


class ProducerTransactions:
    """Owned by one sender, which runs ``work`` whenever it ``has_work``."""

    def __init__(self, cluster: ClusterClient, config: ProducerConfig, records: Records) -> None:
        assert config.transactional_id is not None
        self.machine = ProducerTransaction()
        self.transactional_id = config.transactional_id
        self._cluster = cluster
        self._config = config
        self._records = records
        self._random = cluster.environment.random.child("transactions")
        router = Router(cluster)
        self._wire = TransactionWire(
            self.machine, config, Coordinators(router, TRANSACTION), Coordinators(router)
        )
        self._pending: PendingCall | None = None
        self._sending: list[tuple[AskOffsets, asyncio.Future[None]]] = []
        # Why no request is possible any more, if no broker gave a reason.
        self._reason = ""
        self._stopped: ClientError | None = None

    # The application's calls.

    async def run(self, call: Call) -> None:
        """Initialize, commit or abort, or wait for the same call that timed out before.

        Raises TransactionTimedOut, AbortRequired, ProducerUnusable, TransactionMisuse."""
        if call is Call.ABORT and self.machine.state is ProducerTransactionState.BROKEN:
            # A commit that has certainly failed need not be reported first.
            self._pending = None
        pending = self._pending or self._begin(call)
        if pending.call is not call:
            raise self._misuse(call)
        await self._wait(pending.future, call)

    def _begin(self, call: Call) -> PendingCall:
        self.check(call)
        match call:
            case Call.INITIALIZE:
                self.machine.initialize()
            case Call.COMMIT:
                self.machine.commit()
            case _:
                assert call is Call.ABORT
                self.machine.abort()
        pending = PendingCall(call, asyncio.get_running_loop().create_future())
        self._pending = pending
        self.settle()
        self._records.wake()
        return pending

    def begin(self) -> None:
        """Open a transaction."""
        self.check(Call.BEGIN)
        self.machine.begin()

    def enter(self) -> int:
        """Return the number of the open transaction. Raises as ``check``."""
        if self.machine.state is not ProducerTransactionState.OPEN:
            self.check(Call.SEND)
        return self.machine.serial

    def check_open(self, serial: int) -> None:
        """Raise unless the transaction of that number is still open."""
        if self.machine.state is not ProducerTransactionState.OPEN or self.machine.serial != serial:
            self.check(Call.SEND)
            raise TransactionMisuse("the transaction of this record has ended meanwhile")

    def admit(self, partition: TopicPartition, serial: int) -> None:
        """Register a partition before a record for it is taken. Raises as ``check_open``."""
        self.check_open(serial)
        self.machine.parts.admit(partition)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, Committed], group: ConsumerGroupMetadata
    ) -> None:
        """Make positions of a group part of the transaction. Raises as ``run``."""
        self.check(Call.SEND_OFFSETS)
        if not offsets:
            return
        ask = AskOffsets(group, dict(offsets))
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending.append((ask, future))
        self.machine.parts.send_offsets(ask)
        self._records.wake()
        await self._wait(future, Call.SEND_OFFSETS)

    async def close(self) -> None:
        """End an open transaction, within the time of one request; never raises."""
        if self._pending is not None and self._pending.future.done():
            self._pending = None
        if self._stopped is not None:
            logger.warning("the coordinator is told nothing more: %s", self._stopped)
            return
        if self.machine.state in (ProducerTransactionState.OPEN, ProducerTransactionState.BROKEN):
            logger.warning("the producer is closed within a transaction, which is aborted")
            self._begin(Call.ABORT)
        if self._pending is None:
            return
        limit_ms = min(self._config.request_timeout_ms, self._config.call_timeout_ms)
        try:
            async with TimeLimit(self._cluster.environment.clock, limit_ms):
                await asyncio.shield(self._pending.future)
        except (TimeoutError, ClientError) as error:
            logger.warning("the transaction has not been ended: %s", error)

    def check(self, call: Call) -> None:
        """Raise unless the call is possible now."""
        machine = self.machine
        if machine.state is ProducerTransactionState.FATAL or (
            machine.state is ProducerTransactionState.BROKEN and call is not Call.ABORT
        ):
            raise self.error()
        if machine.state not in LEGAL[call] or self._pending is not None:
            raise self._misuse(call)

    def _misuse(self, call: Call) -> TransactionMisuse:
        if self._pending is not None:
            begun = self._pending.call.value
            return TransactionMisuse(
                f"{call.value} cannot be called now: {begun} has not ended, or its outcome was not "
                f"reported; call {begun} again"
            )
        return TransactionMisuse(
            f"{call.value} cannot be called now: the producer is {self.machine.state.value}",
            ErrorCode.INVALID_TXN_STATE,
        )

    async def _wait(self, future: asyncio.Future[None], call: Call) -> None:
        limit_ms = self._config.call_timeout_ms
        try:
            async with TimeLimit(self._cluster.environment.clock, limit_ms):
                await asyncio.shield(future)
        except TimeoutError:
            told = "calling it again tells how it ends"
            if call is Call.SEND_OFFSETS:
                told = "a commit waits for it"
            raise TransactionTimedOut(
                f"{call.value} has not ended within {limit_ms:.0f} ms; it goes on, and {told}"
            ) from None
        finally:
            if self._pending is not None and self._pending.future is future and future.done():
                self._pending = None

    # The sender's side.

    @property
    def has_work(self) -> bool:
        """Whether ``work`` has anything to do; never after a stop."""
        return self._stopped is None and self.machine.has_work(
            unresolved=self._records.has_unresolved
        )

    async def work(self) -> None:
        """Send requests until there are none for the moment."""
        failures = 0
        while True:
            ask = self.machine.advance(unresolved=self._records.has_unresolved)
            self.settle()
            if ask is None:
                return
            judgement, code = await self._ask(ask)
            self.settle()
            if judgement in (Judgement.AGAIN, Judgement.ELSEWHERE):
                failures += 1
                await self._pause(code, failures)
            else:
                failures = 0

    async def _ask(self, ask: Ask) -> tuple[Judgement, ErrorCode]:
        before = self.machine.identity
        try:
            judgement, code = await self._wire.ask(ask)
        except TransportError as error:
            logger.info("a transaction has to wait: %s", error)
            self._wire.forget(ask)
            self._cluster.mark_stale()
            if error.was_sent:
                self.machine.lost(ask)
            return Judgement.AGAIN, ErrorCode.NETWORK_EXCEPTION
        except RequestRefused as error:
            return self.machine.refused(error.code), error.code
        except UnsupportedByBroker as error:
            self._reason = str(error)
            code = ErrorCode.UNSUPPORTED_VERSION
            return self.machine.refused(code), code
        if judgement is Judgement.ELSEWHERE:
            self._wire.forget(ask)
        if judgement is Judgement.DONE and isinstance(ask, AskOffsets):
            self._offsets_sent(ask)
        if self.machine.identity != before:
            self._records.begin_epoch(self.machine.identity)
        return judgement, code

    async def _pause(self, code: ErrorCode, failures: int) -> None:
        is_busy = code is ErrorCode.CONCURRENT_TRANSACTIONS
        backoff = WHILE_COMPLETING if is_busy else self._config.retry_backoff
        delay_ms = backoff.delay_ms(failures, self._random.random())
        await self._cluster.environment.clock.sleep(delay_ms)

    def _offsets_sent(self, ask: AskOffsets) -> None:
        for sent, future in self._sending:
            if sent is ask and not future.done():
                future.set_result(None)
        self._sending = [(sent, future) for sent, future in self._sending if sent is not ask]

    def settle(self) -> None:
        """Complete the futures of calls that have ended."""
        machine, pending = self.machine, self._pending
        if self._sending and machine.state not in (
            ProducerTransactionState.OPEN,
            ProducerTransactionState.COMMITTING,
        ):
            self._fail_sending(self.error())
        if pending is None or pending.future.done() or machine.state in UNDER_WAY[pending.call]:
            return
        if pending.call is Call.INITIALIZE:
            is_well = machine.state is ProducerTransactionState.READY
        else:
            is_well = machine.outcome is (pending.call is Call.COMMIT)
        if is_well:
            pending.future.set_result(None)
        else:
            set_error(pending.future, self.error())

    def _fail_sending(self, error: ClientError) -> None:
        for _, future in self._sending:
            if not future.done():
                set_error(future, error)
        self._sending.clear()

    def stop(self, error: ClientError) -> None:
        """Stop: every waiting call fails with the error."""
        self._stopped = error
        self._fail_sending(error)
        if self._pending is not None and not self._pending.future.done():
            set_error(self._pending.future, error)

    def error(self) -> TransactionError:
        """Return why records cannot be sent in this transaction."""
        failure = self.machine.failure
        if failure is None:
            return TransactionAborted("the transaction was aborted before this was sent")
        why = self._reason or f"{failure.code.text} [{failure.code.name}]"
        text = f"{failure.step.value} failed: {why}"
        if not failure.is_fatal:
            return AbortRequired(f"{text}; abort the transaction", failure.code)
        if failure.is_in_doubt:
            text = f"{text}; whether the transaction was committed is unknown"
        if failure.code in FENCING:
            return ProducerFenced(
                f"{text}; another producer has the transactional id {self.transactional_id!r} "
                "now, or its transaction was open for too long",
                failure.code,
            )
        return ProducerUnusable(text, failure.code)


def set_error(future: asyncio.Future[None], error: ClientError) -> None:
    """End the future with an error; it need not be awaited."""
    future.set_exception(error)
    future.exception()

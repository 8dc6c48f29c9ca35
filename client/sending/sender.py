"""Sends the producer's batches to the brokers and reports their fates.

One task pumps; ``Deliveries`` and ``ProducerTransaction`` decide what to send and what answers
mean.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.cluster.upkeep import Upkeep
from ottla.client.process.errors import DeliveryTimedOut, TransactionAborted
from ottla.client.process.tasks import guarded
from ottla.client.records.delivery import BatchDelivered, join
from ottla.client.records.record_checks import unwritable
from ottla.client.sending.accumulator import Accumulator
from ottla.client.sending.batch import Batch, BatchPhase
from ottla.client.sending.deliveries import Deliveries, ProducedPartition
from ottla.client.sending.preparation import reporter
from ottla.client.sending.produce_request import PRODUCE, answers_of, build_request, version_for
from ottla.client.sending.producer_id import ask_for_identity
from ottla.client.sending.transaction_states import ProducerTransactionState
from ottla.client.sending.transactions import ProducerTransactions
from ottla.client.sending.verdict import BatchVerdict
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientClosed, ClientError, RequestRefused, TransportError

if TYPE_CHECKING:
    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.sending.sequences import ProducerIdentity
    from ottla.client.settings.config import ProducerConfig
    from ottla.protocol.messages.produce import ProduceResponse
    from ottla.protocol.ports import Buffer, Timer
    from ottla.wire.connection import Connection

logger = logging.getLogger(__name__)

# The broker stops waiting for replicas a little before the client stops waiting for the broker;
# otherwise a slow follower costs the connection.
BROKER_TIMEOUT_SHARE = 0.9


class Sender:
    """Owned by one producer."""

    def __init__(self, cluster: ClusterClient, config: ProducerConfig) -> None:
        self.accumulator = Accumulator(config.limits())
        self.futures: dict[Batch, asyncio.Future[BatchDelivered]] = {}
        # Set when memory has become free, or the sender has ended; one caller at a time waits for
        # it.
        self.room = asyncio.Event()
        self.room_lock = asyncio.Lock()
        self.failure: BaseException | None = None
        self._cluster = cluster
        self._config = config
        self._acks = config.required_acks
        self._is_idempotent = config.is_idempotent
        self._clock = cluster.environment.clock
        self._random = cluster.environment.random.child("sender")
        self._deliveries = Deliveries(
            self.accumulator,
            config.retry_backoff,
            config.codec,
            idempotent=config.is_idempotent,
            in_flight_max=config.in_flight_max,
            transactional=config.transactional_id is not None,
        )
        self.transactions: ProducerTransactions | None = None
        if config.transactional_id is not None:
            self.transactions = ProducerTransactions(cluster, config, self)
        self._reporter = reporter(config)
        self._is_committing = False
        self._in_flight: dict[int, int] = {}
        # The connections that the last round of ``_may_send`` has found.
        self._ready: dict[int, Connection] = {}
        self._upkeep = Upkeep(cluster, self.wake, self._on_crash)
        self._wake = asyncio.Event()
        self._timer: Timer | None = None
        self._timer_ms = 0.0

    def start(self) -> None:
        """Begin pumping, and ask for a producer id meanwhile; a transactional producer gets its own
        from its coordinator."""
        self._upkeep.run(self._run(), "producer")
        if self._deliveries.needs_identity and self.transactions is None:
            self._upkeep.start_job("identity", self._learn_identity)

    async def stop(self) -> None:
        """End; everything undelivered fails."""
        await self._upkeep.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._fail_all(ClientClosed("the producer was closed before this was delivered"))
        if self.transactions is not None:
            self.transactions.stop(ClientClosed("the producer was closed before this had ended"))

    def wake(self) -> None:
        """Let the pump check for batches to send."""
        self._wake.set()

    @property
    def has_unresolved(self) -> bool:
        """Whether some batch is unresolved."""
        return len(self.accumulator) > 0

    def begin_epoch(self, identity: ProducerIdentity) -> None:
        """Number later batches under this identity; no batch is unresolved."""
        self._deliveries.begin_epoch(identity)

    def future_of(self, batch: Batch) -> asyncio.Future[BatchDelivered]:
        """Return the future of a batch, created on first use."""
        future = self.futures.get(batch)
        if future is None:
            future = self.futures[batch] = asyncio.get_running_loop().create_future()
        return future

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._pump()
            await self._wake.wait()

    def _pump(self) -> None:
        now_ms = self._clock.now_ms()
        transactions = self.transactions
        refusal, self._upkeep.refusal = self._upkeep.refusal, None
        if refusal is not None:
            # Records fail now, not when their time is over: no broker will take them.
            for batch in self.accumulator.unresolved():
                if batch.phase is not BatchPhase.IN_FLIGHT:
                    self._give_up(batch, refusal)
                    self._tell_failure(ErrorCode.SASL_AUTHENTICATION_FAILED)
        for batch in self.accumulator.expired(now_ms):
            self._give_up(
                batch,
                DeliveryTimedOut(
                    batch.partition,
                    self._config.delivery_timeout_ms,
                    was_sent=batch.outcome_unknown,
                    last_answer=batch.last_answer,
                ),
            )
            self._tell_failure(ErrorCode.REQUEST_TIMED_OUT)
        if transactions is not None:
            self._pump_transactions(transactions)
        elif (
            self._is_idempotent
            and self._deliveries.sequences.identity is None
            and len(self.accumulator)
        ):
            # Batches have to wait for a producer id.
            self._upkeep.start_job("identity", self._learn_identity)
        may_go = None if transactions is None else transactions.machine.may_go
        while True:
            collected = self.accumulator.collect(
                now_ms, self._cluster.metadata.leader_of, self._may_send, may_go
            )
            is_sent = False
            for node_id, batches in collected.by_node.items():
                is_sent |= self._send(node_id, batches)
            if not is_sent:
                break
        if collected.leaderless or (
            len(self.accumulator) and now_ms > self._cluster.fresh_until_ms
        ):
            self._upkeep.refresh(collected.leaderless)
        self._set_timer(now_ms, collected.wake_ms)

    def _pump_transactions(self, transactions: ProducerTransactions) -> None:
        """Drop what must not be sent any more, disable linger for a commit, and start requests to
        the coordinators."""
        machine = transactions.machine
        if machine.is_draining:
            error = transactions.error()
            for batch in self.accumulator.unresolved():
                if batch.phase is not BatchPhase.IN_FLIGHT:
                    self._give_up(batch, error)
        is_committing = machine.state is ProducerTransactionState.COMMITTING
        if is_committing != self._is_committing:
            self._is_committing = is_committing
            self.accumulator.flushing += 1 if is_committing else -1
        if transactions.has_work:
            self._upkeep.start_job("transaction", transactions.work)

    def _give_up(self, batch: Batch, error: ClientError) -> None:
        was_numbered = batch.is_numbered
        self._deliveries.give_up(batch)
        if self.transactions is not None:
            self.transactions.machine.dropped(was_numbered=was_numbered)
        self._fail(batch, error)

    def _tell_failure(self, code: ErrorCode) -> None:
        """Report a failed batch to its transaction, which may have to be aborted."""
        if self.transactions is not None:
            self.transactions.machine.batch_failed(code)
            self.transactions.settle()

    def _set_timer(self, now_ms: float, wake_ms: float | None) -> None:
        """Run the pump at that time."""
        if self._timer is not None:
            if wake_ms is not None and now_ms < self._timer_ms <= wake_ms:
                # One wake-up too many is cheaper than another timer for each request.
                return
            if now_ms < self._timer_ms:
                self._timer.cancel()
            self._timer = None
        if wake_ms is not None:
            self._timer_ms = wake_ms
            self._timer = self._clock.call_at(wake_ms, self.wake)

    # Sending.

    def _may_send(self, node_id: int) -> bool:
        if self._in_flight.get(node_id, 0) >= self._config.in_flight_max:
            return False
        connection = self._cluster.pool.ready(node_id)
        if connection is None:
            self._upkeep.connect(node_id)
            return False
        self._ready[node_id] = connection
        return True

    def _send(self, node_id: int, batches: list[Batch]) -> bool:
        """Send what can be numbered; return whether anything was sent."""
        connection = self._ready.pop(node_id)
        if connection.closed:
            return False
        going: list[tuple[Batch, Buffer]] = []
        sent: list[Batch] = []
        for batch in batches:
            try:
                encoded = self._deliveries.depart(batch, node_id)
            except (TypeError, ValueError, OverflowError) as error:
                # Columns are the caller's memory, and read here for the first time.
                self._give_up(batch, unwritable(batch.partition, error))
                self._tell_failure(ErrorCode.INVALID_RECORD)
                self.wake()
                continue
            if encoded is not None:
                going.append((batch, encoded))
                sent.append(batch)
        if not going:
            return False
        request = build_request(
            going,
            self._cluster.metadata,
            self._acks,
            int(self._config.request_timeout_ms * BROKER_TIMEOUT_SHARE),
            self._config.transactional_id,
        )
        is_implicit = False
        if self.transactions is not None:
            parts = self.transactions.machine.parts
            parts.is_known, is_implicit = True, parts.is_implicit
        future: asyncio.Future[ProduceResponse] | asyncio.Future[None]
        if self._acks == 0:
            # As long as the kernel has no room for it, the request stays in this process's memory.
            future = connection.send_unanswered(PRODUCE, request)
        else:
            version = version_for(connection, request, is_implicit=is_implicit)
            future = connection.send(PRODUCE, request, version=version)
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        on_answer = partial(self._on_answer, node_id, connection, sent)
        future.add_done_callback(guarded(on_answer, self._on_crash))
        return True

    def _on_answer(
        self,
        node_id: int,
        connection: Connection,
        batches: list[Batch],
        future: asyncio.Future[ProduceResponse] | asyncio.Future[None],
    ) -> None:
        self._in_flight[node_id] -= 1
        self.wake()
        if future.cancelled():
            return
        failure = future.exception()
        # Batches that were given up when the producer stopped need no answer.
        batches = [batch for batch in batches if batch.phase is not BatchPhase.DONE]
        now_ms = self._clock.now_ms()
        if isinstance(failure, TransportError):
            self._cluster.mark_stale()
            for batch in batches:
                chance = self._random.random()
                self._deliveries.connection_lost(batch, now_ms, chance, was_sent=failure.was_sent)
            return
        if failure is not None:
            self._on_crash(failure)
            return
        response = future.result()
        if response is None:
            # Sent with acks=0: no answer will follow.
            self.accumulator.progress_ms = now_ms
            for batch in batches:
                self._deliveries.sent_for_good(batch)
                self._succeed(batch, BatchDelivered(-1, -1))
            return
        answers = answers_of(response, self._cluster.metadata)
        for batch in batches:
            # A broker that leaves a partition out has reported nothing about it.
            answer = answers.get(batch.partition, ProducedPartition(ErrorCode.NETWORK_EXCEPTION))
            self._settle(batch, answer, connection, now_ms)

    def _settle(
        self, batch: Batch, answer: ProducedPartition, connection: Connection, now_ms: float
    ) -> None:
        chance = 0.0 if answer.code is ErrorCode.NONE else self._random.random()
        verdict = self._deliveries.answered(batch, answer, now_ms, chance)
        if verdict is BatchVerdict.DELIVERED:
            self.accumulator.progress_ms = now_ms
            self._succeed(batch, BatchDelivered(answer.base_offset, answer.append_time_ms))
        elif verdict is BatchVerdict.SPLIT:
            future = self.futures.pop(batch, None)
            if future is not None:
                join(future, [(half.record_count, self.future_of(half)) for half in batch.halves])
        elif verdict is BatchVerdict.AGAIN_ELSEWHERE:
            self._cluster.mark_stale()
        elif verdict not in (BatchVerdict.AGAIN, BatchVerdict.RENUMBER):
            where, broker = batch.partition, str(connection.address)
            self._fail(
                batch, RequestRefused.for_partition(answer.code, where, broker, answer.message)
            )
            if self.transactions is not None:
                self.transactions.machine.dropped(was_numbered=batch.is_numbered)
            self._tell_failure(answer.code)

    # Fates.

    def _succeed(self, batch: Batch, delivered: BatchDelivered) -> None:
        self.room.set()
        future = self.futures.pop(batch, None)
        if future is not None and not future.done():
            future.set_result(delivered)
        if self._reporter is not None:
            self._reporter.delivered(batch, delivered)

    def _fail(self, batch: Batch, error: ClientError) -> None:
        self.room.set()
        # The application knows about its own aborts.
        level = logging.DEBUG if isinstance(error, TransactionAborted) else logging.WARNING
        count = batch.record_count
        records = "1 record was" if count == 1 else f"{count} records were"
        logger.log(level, "%s not delivered: %s", records, error)
        future = self.futures.pop(batch, None)
        if future is not None and not future.done():
            future.set_exception(error)
            # Logged above: the future need not be awaited.
            future.exception()
        if self._reporter is not None:
            self._reporter.failed(batch, error)

    def _fail_all(self, error: ClientError) -> None:
        for batch in self.accumulator.unresolved():
            self.accumulator.resolve(batch)
            self._fail(batch, error)
        self.room.set()

    def _on_crash(self, failure: BaseException) -> None:
        logger.error("the producer stops: %s", failure, exc_info=failure)
        self.failure = failure
        self._fail_all(ClientClosed(f"the producer has stopped: {failure}"))
        if self.transactions is not None:
            self.transactions.stop(ClientClosed(f"the producer has stopped: {failure}"))

    async def _learn_identity(self) -> None:
        try:
            identity = await ask_for_identity(self._cluster)
        except ClientError as error:
            may_pass = error.retriable or not self._cluster.all_refuse
            if not isinstance(error, TransportError) or not may_pass:
                self._fail_all(error)
                return
            logger.info("cannot get a producer id yet: %s", error)
            await self._cluster.pause(1)
        else:
            self._deliveries.sequences.adopt(identity)

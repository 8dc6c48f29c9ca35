"""The producer's second half: takes batches out of memory to the brokers and their fates back.

One task pumps; what to send and what an answer means is decided by the machines in ``state``.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.api import declare
from ottla.client.delivery import BatchDelivered
from ottla.client.errors import (
    ClientClosed,
    ClientError,
    DeliveryTimedOut,
    RequestRefused,
    TransportError,
)
from ottla.client.produce_request import PRODUCE, answers_of, build_request, version_for
from ottla.client.routing import Router
from ottla.client.state.accumulator import Accumulator
from ottla.client.state.batch import Batch, Phase
from ottla.client.state.deliveries import Answer, Deliveries
from ottla.client.state.sequences import Identity
from ottla.client.state.verdict import Verdict
from ottla.client.upkeep import Upkeep
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.config import ProducerConfig
    from ottla.client.connection import Connection
    from ottla.protocol.messages.produce import ProduceResponse
    from ottla.protocol.ports import Timer

logger = logging.getLogger(__name__)

INIT_PRODUCER_ID = declare(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse)
# The broker gives up waiting for replicas a little before we give up waiting for the broker;
# otherwise a slow follower costs the connection.
BROKER_TIMEOUT_SHARE = 0.9


class Sender:
    """Owned by one producer."""

    def __init__(self, cluster: Cluster, config: ProducerConfig) -> None:
        self.accumulator = Accumulator(config.limits())
        self.futures: dict[Batch, asyncio.Future[BatchDelivered]] = {}
        # Set whenever memory has become free, or the sender has ended.
        self.room = asyncio.Event()
        self.failure: BaseException | None = None
        self._cluster = cluster
        self._config = config
        self._clock = cluster.environment.clock
        self._random = cluster.environment.random.child("sender")
        self._deliveries = Deliveries(
            self.accumulator,
            config.retry_backoff,
            config.codec,
            idempotent=config.is_idempotent,
            in_flight_max=config.in_flight_max,
        )
        self._in_flight: dict[int, int] = {}
        self._upkeep = Upkeep(cluster, self.wake, self._on_crash)
        self._wake = asyncio.Event()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin pumping, and ask for the producer id while the first records come in."""
        self._upkeep.run(self._run(), "producer")
        if self._deliveries.needs_identity:
            self._upkeep.start_job("identity", self._learn_identity)

    async def stop(self) -> None:
        """End; whatever is not delivered by now fails."""
        await self._upkeep.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._fail_all(ClientClosed("the producer was closed before this was delivered"))

    def wake(self) -> None:
        """Something has changed that may let a batch go."""
        self._wake.set()

    def future_of(self, batch: Batch) -> asyncio.Future[BatchDelivered]:
        """The one future of a batch."""
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
        for batch in self.accumulator.expired(now_ms):
            self._deliveries.give_up(batch)
            self._fail(
                batch,
                DeliveryTimedOut(
                    batch.partition,
                    self._config.delivery_timeout_ms,
                    was_sent=batch.outcome_unknown,
                    last_answer=batch.last_answer,
                ),
            )
        if self._deliveries.needs_identity and len(self.accumulator):
            self._upkeep.start_job("identity", self._learn_identity)
        while True:
            collected = self.accumulator.collect(
                now_ms, self._cluster.metadata.leader_of, self._may_send
            )
            sent = [self._send(node, batches) for node, batches in collected.by_node.items()]
            if not any(sent):
                break
        if collected.leaderless or (self._cluster.is_stale and len(self.accumulator)):
            self._upkeep.refresh(collected.leaderless)
        self._set_timer(collected.wake_ms)

    def _set_timer(self, wake_ms: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [at for at in (wake_ms, self.accumulator.next_expiry_ms()) if at is not None]
        if times:
            self._timer = self._clock.call_at(min(times), self.wake)

    # Sending.

    def _may_send(self, node_id: int) -> bool:
        if self._in_flight.get(node_id, 0) >= self._config.in_flight_max:
            return False
        if self._cluster.pool.ready(node_id) is None:
            self._upkeep.connect(node_id)
            return False
        return True

    def _send(self, node_id: int, batches: list[Batch]) -> bool:
        """Send what can be numbered; return whether anything went out."""
        connection = self._cluster.pool.ready(node_id)
        if connection is None:
            return False
        going = []
        for batch in batches:
            encoded = self._deliveries.depart(batch, node_id)
            if encoded is not None:
                going.append((batch, encoded))
        if not going:
            return False
        request = build_request(
            going,
            self._cluster.metadata,
            self._config.required_acks,
            int(self._config.request_timeout_ms * BROKER_TIMEOUT_SHARE),
        )
        sent = [batch for batch, _ in going]
        if self._config.required_acks == 0:
            connection.send_unanswered(PRODUCE, request)
            for batch in sent:
                self._deliveries.sent_for_good(batch)
                self._succeed(batch, BatchDelivered(-1, -1))
            return True
        version = version_for(connection, request)
        future = connection.send(PRODUCE, request, version=version)
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        future.add_done_callback(partial(self._on_answer, node_id, connection, sent))
        return True

    def _on_answer(
        self,
        node_id: int,
        connection: Connection,
        batches: list[Batch],
        future: asyncio.Future[ProduceResponse],
    ) -> None:
        self._in_flight[node_id] -= 1
        self.wake()
        if future.cancelled():
            return
        failure = future.exception()
        now_ms = self._clock.now_ms()
        # Batches that were given up when the producer stopped have no use for an answer.
        batches = [batch for batch in batches if batch.phase is not Phase.DONE]
        if isinstance(failure, TransportError):
            self._cluster.mark_stale()
            for batch in batches:
                chance = self._random.random()
                self._deliveries.connection_lost(batch, now_ms, chance, was_sent=failure.was_sent)
            return
        if failure is not None:
            self._on_crash(failure)
            return
        answers = answers_of(future.result(), self._cluster.metadata)
        for batch in batches:
            # A broker that leaves a partition out has told nothing about it.
            answer = answers.get(batch.partition, Answer(ErrorCode.NETWORK_EXCEPTION))
            self._settle(batch, answer, connection, now_ms)

    def _settle(self, batch: Batch, answer: Answer, connection: Connection, now_ms: float) -> None:
        verdict = self._deliveries.answered(batch, answer, now_ms, self._random.random())
        if verdict is Verdict.DELIVERED:
            self._succeed(batch, BatchDelivered(answer.base_offset, answer.append_time_ms))
        elif verdict is Verdict.AGAIN_ELSEWHERE:
            self._cluster.mark_stale()
        elif verdict not in (Verdict.AGAIN, Verdict.RENUMBER):
            where, broker = batch.partition, str(connection.address)
            self._fail(
                batch, RequestRefused.for_partition(answer.code, where, broker, answer.message)
            )

    # Fates.

    def _succeed(self, batch: Batch, delivered: BatchDelivered) -> None:
        self.room.set()
        future = self.futures.pop(batch, None)
        if future is not None and not future.done():
            future.set_result(delivered)

    def _fail(self, batch: Batch, error: ClientError) -> None:
        self.room.set()
        logger.warning("%d records were not delivered: %s", batch.record_count, error)
        future = self.futures.pop(batch, None)
        if future is not None and not future.done():
            future.set_exception(error)
            # It has been logged; nobody has to await it.
            future.exception()

    def _fail_all(self, error: ClientError) -> None:
        for batch in self.accumulator.unresolved():
            self.accumulator.resolve(batch)
            self._fail(batch, error)
        self.room.set()

    def _on_crash(self, failure: BaseException) -> None:
        logger.error("the producer stops: %s", failure, exc_info=failure)
        self.failure = failure
        self._fail_all(ClientClosed(f"the producer has stopped: {failure}"))

    async def _learn_identity(self) -> None:
        def check(response: InitProducerIdResponse, connection: Connection) -> None:
            code = error_code(response.error_code)
            if code is not ErrorCode.NONE:
                raise RequestRefused(code, broker=str(connection.address))

        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=int(self._config.call_timeout_ms)
        )
        try:
            response = await Router(self._cluster).to_any(INIT_PRODUCER_ID, request, check)
        except TransportError as error:
            logger.info("cannot get a producer id yet: %s", error)
            await self._cluster.pause(1)
        except ClientError as error:
            self._fail_all(error)
        else:
            self._deliveries.sequences.adopt(
                Identity(response.producer_id, response.producer_epoch)
            )

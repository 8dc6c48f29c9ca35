"""Asks coordinators whether a transaction is open, and whether partitions are part of it (KIP-890).

The coordinator on this broker is called. To each other broker one AddPartitionsToTxn request at a
time is sent, with all questions that arrived meanwhile. Requests that only verify do not wait for
those that add partitions. Each question is answered exactly once, within its timeout: the
connection of the producer waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.coordinating.internal_topics import TRANSACTIONS_TOPIC
from ottla.coordinator.hashing import partition_for
from ottla.coordinator.transaction.requests import Added, AddToTransaction
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ottla.broker.engine.deferred import DeferredAnswer
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.membership.peers import Peers
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.protocol.ports import Clock
    from ottla.wire.connection import Connection

logger = logging.getLogger("ottla.transactions")

Errors = dict[TopicPartition, ErrorCode]

# Well below the time that producers wait for a response.
ASK_TIMEOUT_MS = 5_000.0
# While the previous transaction is being completed, which takes a moment: Kafka's
# add.partitions.to.txn.retry.backoff.ms and .max.ms.
_BACKOFF_MS = 20.0
_BACKOFF_MS_MAX = 100.0
_NONE = ErrorCode.NONE
_NO_ANSWER = ErrorCode.NETWORK_EXCEPTION
# Versions below 4 are for producers only, not for brokers.
_ADD_PARTITIONS = declare(
    ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, 4, 5
)


class _Question(NamedTuple):
    asked: AddToTransaction
    answer: asyncio.Future[Errors]


class Verification:
    """Owned by the server. ``ask_here`` asks the coordinator on this broker."""

    def __init__(
        self,
        peers: Peers,
        metadata: MetadataCache,
        ask_here: Callable[[AddToTransaction], DeferredAnswer[Added]],
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self.ask_here = ask_here
        self._peers = peers
        self._metadata = metadata
        self._clock = clock
        self._tasks = tasks
        # By broker, and by whether it is to write.
        self._ways: dict[tuple[int, bool], _Way] = {}
        # Questions that were not confirmed, for metrics.
        self.failure_count = 0

    async def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
        known_epoch: int = -1,
    ) -> Errors:
        """Return the verdict on each partition, with the coordinator's codes, and
        COORDINATOR_NOT_AVAILABLE or NETWORK_EXCEPTION where it could not be asked.

        ``adds`` makes them part of the transaction, which then is of version 2. ``known_epoch`` is
        that of the newest coordinator that has ended a transaction there: an older coordinator may
        not know that it has been replaced, and believe in transactions that have ended (T-15)."""
        asked = AddToTransaction(
            transactional_id,
            producer_id,
            producer_epoch,
            tuple(partitions),
            is_verification=not adds,
            transaction_version=2 if adds else 1,
        )
        give_up_ms = self._clock.now_ms() + _BACKOFF_MS_MAX
        while True:
            errors = await self._ask(asked, known_epoch)
            is_early = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            # Sending all records again costs more than asking again; but only producers of version
            # 2 begin the next transaction before the end of the last one has reached all
            # partitions.
            if not (adds and is_early) or self._clock.now_ms() >= give_up_ms:
                break
            await self._clock.sleep(_BACKOFF_MS)
        self.failure_count += any(error is not _NONE for error in errors.values())
        return errors

    async def _ask(self, asked: AddToTransaction, known_epoch: int) -> Errors:
        node_id, epoch = self._coordinator_of(asked.transactional_id)
        if node_id < 0:
            return _all(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if epoch < known_epoch:
            # This broker does not know the new coordinator yet, but the partition does.
            return _all(asked, ErrorCode.NOT_COORDINATOR)
        answer: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        question = _Question(asked, answer)
        deadline_ms = self._clock.now_ms() + ASK_TIMEOUT_MS
        timer = self._clock.call_at(deadline_ms, lambda: _settle(question, _all(asked, _NO_ANSWER)))
        try:
            if node_id == self._peers.node_id:
                self.ask_here(asked).then(lambda added: _settle(question, added.errors))
            else:
                self._way_to(node_id, writes=not asked.is_verification).put(question)
            return await answer
        finally:
            timer.cancel()

    def _coordinator_of(self, transactional_id: str) -> tuple[int, int]:
        """The broker, and its epoch as coordinator; -1, -1 if there is none."""
        topic = self._metadata.topic(TRANSACTIONS_TOPIC)
        if topic is None or not topic.partitions:
            return -1, -1
        index = partition_for(transactional_id, len(topic.partitions))
        return self._metadata.leader_of(TRANSACTIONS_TOPIC, index)

    def _way_to(self, node_id: int, *, writes: bool) -> _Way:
        way = self._ways.get((node_id, writes))
        if way is None:
            way = self._ways[node_id, writes] = _Way(node_id, self._peers, self._tasks)
        return way


class _Way:
    """The connection to one broker, and the queue of questions to it."""

    def __init__(self, node_id: int, peers: Peers, tasks: Tasks) -> None:
        self._node_id = node_id
        self._peers = peers
        self._tasks = tasks
        self._waiting: list[_Question] = []
        self._connection: Connection | None = None
        self._is_sending = False

    def put(self, question: _Question) -> None:
        """Ask with the next request."""
        self._waiting.append(question)
        if not self._is_sending:
            self._is_sending = True
            self._tasks.spawn(f"transactions at broker {self._node_id}", self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send(self._take())
        finally:
            self._is_sending = False

    def _take(self) -> list[_Question]:
        """Take questions of different transactional ids, which identify the answers."""
        batch: dict[str, _Question] = {}
        left = []
        for question in self._waiting:
            if question.answer.done():
                continue
            if question.asked.transactional_id in batch:
                left.append(question)
            else:
                batch[question.asked.transactional_id] = question
        self._waiting = left
        return list(batch.values())

    async def _send(self, batch: list[_Question]) -> None:
        if not batch:
            return
        try:
            connection = await self._connect()
            request = AddPartitionsToTxnRequest([_transaction_of(one.asked) for one in batch])
            response = await connection.send(_ADD_PARTITIONS, request, timeout_ms=ASK_TIMEOUT_MS)
            answers = _answers_of(response)
        except (KafkaError, ClientError, OSError) as error:
            logger.info("broker %d cannot be asked about transactions: %s", self._node_id, error)
            answers = {}
        for question in batch:
            given = answers.get(question.asked.transactional_id, {})
            _settle(
                question,
                {place: given.get(place, _NO_ANSWER) for place in question.asked.partitions},
            )

    async def _connect(self) -> Connection:
        """Raises KafkaError or ClientError."""
        known = self._connection
        if known is not None and not known.closed:
            if known.address == self._peers.address_of(self._node_id):
                return known
            known.close("the broker has moved")
        self._connection = await self._peers.connect(
            self._node_id, purpose="verification", request_timeout_ms=ASK_TIMEOUT_MS
        )
        return self._connection


def _settle(question: _Question, errors: Errors) -> None:
    if not question.answer.done():
        question.answer.set_result(errors)


def _all(asked: AddToTransaction, error: ErrorCode) -> Errors:
    return dict.fromkeys(asked.partitions, error)


def _transaction_of(asked: AddToTransaction) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        verify_only=asked.is_verification,
        topics=[
            AddPartitionsToTxnTopic(name, indexes)
            for name, indexes in _by_topic(asked.partitions).items()
        ],
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def _answers_of(response: AddPartitionsToTxnResponse) -> dict[str, Errors]:
    """By transactional id. Raises KafkaError when the whole request was refused."""
    if response.error_code:
        raise KafkaError(error_code(response.error_code))
    return {
        result.transactional_id: {
            TopicPartition(topic.name, one.partition_index): error_code(one.partition_error_code)
            for topic in result.topic_results
            for one in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }

"""Clients that keep a history while brokers die: writers, readers and pipelines, all transactional.

Every value is sent once by the application. A process of the history is one client: a client that
has lost track of its state continues under a new name.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.checker.history import Call, Kind, Read, Sent
from tests.cluster.support.load import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.checker.history import Recorder

FIRST, SECOND = "history-first", "history-second"
PARTITIONS = 2
WAIT_S = 120.0


class History:
    """What all workers share: the recorder under one clock, fresh values, and the end."""

    def __init__(self, address: str, recorder: Recorder) -> None:
        self.address = address
        self.stopping = threading.Event()
        # All writers have ended: what is there now is all that readers will find.
        self.settled = threading.Event()
        self.errors: list[str] = []
        self._recorder = recorder
        self._lock = threading.Lock()
        self._values = itertools.count(1)
        self._names = itertools.count(1)

    def note(self, process: str, kind: Kind, call: Call, **more: Any) -> None:
        with self._lock:
            self._recorder.note(time.monotonic_ns(), process, kind, call, **more)

    def value(self) -> int:
        with self._lock:
            return next(self._values)

    def name(self, role: str) -> str:
        with self._lock:
            return f"{role}-{next(self._names)}"


class Worker(threading.Thread):
    """Works until stopped; an unexpected exception is an error of the test."""

    def __init__(self, history: History, role: str, seed: int) -> None:
        super().__init__(name=role)
        self._history, self._role = history, role
        self._chance = random.Random(seed)

    def run(self) -> None:
        try:
            while not self._history.stopping.is_set():
                try:
                    self.life(self._history.name(self._role))
                except KafkaException as error:
                    # Its client is not usable any more.
                    print(f"{self._role}: {error}")
                    time.sleep(0.2)
        except Exception as error:
            self._history.errors.append(f"{self._role}: {error!r}")
            raise

    def life(self, process: str) -> None:
        """With one client, until the end or a KafkaException."""
        raise NotImplementedError


class Transactions:
    """A producer whose transactions are written down."""

    def __init__(self, history: History, process: str, transactional_id: str) -> None:
        self._history, self._process = history, process
        self._producer = Producer(
            {
                "bootstrap.servers": history.address,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 15_000,
                "reconnect.backoff.max.ms": 200,
                "linger.ms": 0,
            },
            logger=QUIET,
        )
        self._producer.init_transactions(WAIT_S)

    def transact(
        self,
        wanted: Iterable[tuple[str, int, bytes]],
        *,
        read: list[Read] | None = None,
        commits: bool = True,
        add: Callable[[Any], None] = lambda _producer: None,
    ) -> bool:
        """Whether it was committed. Raises KafkaException when the outcome is unknown or final
        failure."""
        places = [(topic, number, self._history.value(), key) for topic, number, key in wanted]
        offsets: dict[int, int] = {}
        plan = [Sent(f"{topic}-{number}", value) for topic, number, value, _key in places]
        self._history.note(self._process, Kind.INVOKE, Call.TXN, sent=plan)
        outcome = Kind.INFO
        try:
            outcome = self._carry_out(places, offsets, commits, add)
        finally:
            # While the outcome is unknown, offsets prove nothing: another leader may have reused
            # them.
            sent = [
                one._replace(offset=offsets.get(one.value) if outcome is Kind.OK else None)
                for one in plan
            ]
            self._history.note(self._process, outcome, Call.TXN, sent=sent, read=read or [])
        return outcome is Kind.OK

    def _carry_out(
        self,
        places: list[tuple[str, int, int, bytes]],
        offsets: dict[int, int],
        commits: bool,
        add: Callable[[Any], None],
    ) -> Kind:
        producer = self._producer

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                offsets[int(message.value())] = message.offset()

        producer.begin_transaction()
        try:
            for topic, number, value, key in places:
                producer.produce(topic, b"%d" % value, key, partition=number, on_delivery=delivered)
            add(producer)
            if commits:
                producer.commit_transaction(WAIT_S)
                return Kind.OK
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        producer.abort_transaction(WAIT_S)
        return Kind.FAIL


class Writer(Worker):
    """Transactions over both topics; one of five is aborted."""

    def life(self, process: str) -> None:
        transactions = Transactions(self._history, process, self._role)
        while not self._history.stopping.is_set():
            count = self._chance.randint(1, 4)
            wanted = [(FIRST, self._chance.randrange(PARTITIONS), b"own") for _ in range(count)]
            # The pipeline writes to the second as well.
            wanted += [(SECOND, number, b"own") for number in range(PARTITIONS)]
            transactions.transact(wanted, commits=self._chance.random() < 0.8)


class Pipeline(Worker):
    """Carries one partition of the first topic to the second, with its position."""

    def __init__(self, history: History, role: str, seed: int, partition: int) -> None:
        super().__init__(history, role, seed)
        self._partition = partition

    def life(self, process: str) -> None:
        transactions = Transactions(self._history, process, self._role)
        consumer = reader_of(self._history.address, self._role)
        try:
            where = TopicPartition(FIRST, self._partition)
            (start,) = consumer.committed([where], timeout=WAIT_S)
            consumer.assign([TopicPartition(FIRST, self._partition, max(start.offset, 0))])
            key = f"{FIRST}-{self._partition}"
            self._history.note(process, Kind.OK, Call.ASSIGN, keys=[key])
            while not self._history.stopping.is_set():
                messages = [m for m in consumer.consume(20, 0.2) if m.error() is None]
                if messages and not self._carry(transactions, consumer, messages):
                    return
        finally:
            consumer.close()

    def _carry(self, transactions: Transactions, consumer: Any, messages: list[Any]) -> bool:
        key = f"{FIRST}-{self._partition}"
        end = TopicPartition(FIRST, self._partition, messages[-1].offset() + 1)
        group = consumer.consumer_group_metadata()
        return transactions.transact(
            [
                (SECOND, self._chance.randrange(PARTITIONS), b"%s:%s" % (key.encode(), m.value()))
                for m in messages
            ],
            read=[Read(key, m.offset(), int(m.value())) for m in messages],
            add=lambda producer: producer.send_offsets_to_transaction([end], group, WAIT_S),
        )


class Reader(Worker):
    """Reads everything that is committed, from the beginning, for as long as it lives."""

    def __init__(self, history: History, role: str, seed: int) -> None:
        super().__init__(history, role, seed)
        self.carried: list[bytes] = []
        self.ends: dict[str, int] = {}

    def life(self, process: str) -> None:
        consumer = reader_of(self._history.address, self._role)
        self.carried.clear()
        try:
            places = [
                TopicPartition(topic, number, 0)
                for topic in (FIRST, SECOND)
                for number in range(PARTITIONS)
            ]
            consumer.assign(places)
            keys = [f"{place.topic}-{place.partition}" for place in places]
            self._history.note(process, Kind.OK, Call.ASSIGN, keys=keys)
            while not self._history.settled.is_set():
                self.poll(process, consumer)
            idle = 0
            while idle < 10:
                idle = 0 if self.poll(process, consumer) else idle + 1
        finally:
            consumer.close()

    def poll(self, process: str, consumer: Any) -> int:
        self._history.note(process, Kind.INVOKE, Call.POLL)
        messages = [m for m in consumer.consume(500, 0.3) if m.error() is None]
        self.carried += [m.key() for m in messages if m.key() != b"own"]
        read = [Read(f"{m.topic()}-{m.partition()}", m.offset(), int(m.value())) for m in messages]
        self._history.note(process, Kind.OK, Call.POLL, read=read)
        return len(read)


def reader_of(address: str, group: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 200,
        },
        logger=QUIET,
    )

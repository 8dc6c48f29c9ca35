"""One client of a mixed load: ``python -m tests.cluster.support.mixed_load KIND BOOTSTRAP``.

Reads records per second from standard input, one number a line, and ends with the input. Writes a
line of JSON each second: how many records it has moved in all, and the milliseconds that each
request of the last second took.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaProducer

import ottla
from tests.cluster.support.load import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC, OTHER_TOPIC = "mixed", "transacted"
VALUE = b"x" * 512
# A member stays in its group for so long, then leaves and comes back.
STAY_S = 20.0
RECORDS_PER_TRANSACTION = 20


class Pace:
    """The wanted rate, and whether to go on; a thread of its own reads both."""

    def __init__(self) -> None:
        self._is_over = False
        self.moved = 0
        self._rate = 1.0
        self._took_ms: list[float] = []
        self._next = self._told = time.monotonic()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._rate = max(1.0, float(line))
        self._is_over = True

    @property
    def is_over(self) -> bool:
        return self._is_over

    def is_before(self, deadline: float) -> bool:
        """Whether to go on before that time of the monotonic clock."""
        return not self._is_over and time.monotonic() < deadline

    def pause_s(self, count: int = 1) -> float:
        """Seconds to wait before the next so many records."""
        now = time.monotonic()
        # After a stall it goes on at the wanted rate and does not catch up.
        self._next = max(self._next, now - 1.0) + count / self._rate
        return max(0.0, self._next - now)

    def moved_some(self, count: int, began: float | None = None) -> None:
        """Count records, with the time since ``began`` as that of one request."""
        now = time.monotonic()
        self.moved += count
        if began is not None:
            self._took_ms.append(1000 * (now - began))
        if now - self._told >= 1.0:
            line = {"moved": self.moved, "took_ms": self._took_ms}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
            self._took_ms, self._told = [], now


def produce_confluent(bootstrap: str, pace: Pace) -> None:
    """librdkafka with idempotence."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}, logger=QUIET
    )
    while not pace.is_over:
        time.sleep(pace.pause_s(20))
        began = time.monotonic()
        for _ in range(20):
            producer.produce(TOPIC, VALUE)
        assert producer.flush(60) == 0
        pace.moved_some(20, began)


def produce_kafka_python(bootstrap: str, pace: Pace) -> None:
    """kafka-python with acks=all."""
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", linger_ms=5)
    while not pace.is_over:
        time.sleep(pace.pause_s(20))
        began = time.monotonic()
        sent = [producer.send(TOPIC, VALUE) for _ in range(20)]
        for one in sent:
            one.get(60)
        pace.moved_some(20, began)
    producer.close()


def produce_aiokafka(bootstrap: str, pace: Pace) -> None:
    """aiokafka with idempotence."""

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        while not pace.is_over:
            await asyncio.sleep(pace.pause_s(20))
            began = time.monotonic()
            await asyncio.gather(*[await producer.send(TOPIC, VALUE) for _ in range(20)])
            pace.moved_some(20, began)
        await producer.stop()

    asyncio.run(run())


def produce_ottla(bootstrap: str, pace: Pace) -> None:
    """Ottla's own producer."""

    async def run() -> None:
        async with ottla.Producer(bootstrap) as producer:
            while not pace.is_over:
                await asyncio.sleep(pace.pause_s(20))
                began = time.monotonic()
                await asyncio.gather(*[await producer.send(TOPIC, VALUE) for _ in range(20)])
                pace.moved_some(20, began)

    asyncio.run(run())


def consume_confluent(bootstrap: str, pace: Pace) -> None:
    """librdkafka in a group, which it leaves and joins again and again."""
    while not pace.is_over:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "mixed",
                "auto.offset.reset": "latest",
                # The only one that aiokafka offers by default.
                "partition.assignment.strategy": "roundrobin",
            },
            logger=QUIET,
        )
        consumer.subscribe([TOPIC])
        leaves_at = time.monotonic() + STAY_S
        while pace.is_before(leaves_at):
            messages = consumer.consume(500, 0.1)
            pace.moved_some(sum(one.error() is None for one in messages))
        consumer.close()


def consume_aiokafka(bootstrap: str, pace: Pace) -> None:
    """aiokafka in the same group."""

    async def run() -> None:
        while not pace.is_over:
            consumer = AIOKafkaConsumer(
                TOPIC, bootstrap_servers=bootstrap, group_id="mixed", auto_offset_reset="latest"
            )
            await consumer.start()
            leaves_at = time.monotonic() + 1.7 * STAY_S
            while pace.is_before(leaves_at):
                found = await consumer.getmany(timeout_ms=100)
                pace.moved_some(sum(map(len, found.values())))
            await consumer.stop()

    asyncio.run(run())


def consume_ottla(bootstrap: str, pace: Pace) -> None:
    """Ottla's own consumer, in a group of KIP-848."""

    async def run() -> None:
        while not pace.is_over:
            async with ottla.Consumer(
                bootstrap,
                group_id="mixed-848",
                group_protocol="consumer",
                offset_reset="latest",
            ) as consumer:
                await consumer.subscribe([TOPIC])
                leaves_at = time.monotonic() + 1.3 * STAY_S
                while pace.is_before(leaves_at):
                    pace.moved_some(len(await consumer.poll(max_wait_ms=100)))

    asyncio.run(run())


def transact(bootstrap: str, pace: Pace) -> None:
    """librdkafka's transactions, each tenth of which is aborted."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "mixed", "linger.ms": 0}, logger=QUIET
    )
    producer.init_transactions(60)
    for number in itertools.count():
        if pace.is_over:
            return
        time.sleep(pace.pause_s(RECORDS_PER_TRANSACTION))
        began = time.monotonic()
        producer.begin_transaction()
        for _ in range(RECORDS_PER_TRANSACTION):
            producer.produce(OTHER_TOPIC, VALUE)
        if number % 10 == 9:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
        pace.moved_some(RECORDS_PER_TRANSACTION, began)


def read_committed(bootstrap: str, pace: Pace) -> None:
    """librdkafka reads what was committed, in a group of its own."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "committed",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        },
        logger=QUIET,
    )
    consumer.subscribe([OTHER_TOPIC])
    while not pace.is_over:
        try:
            messages = consumer.consume(500, 0.1)
        except KafkaException:
            continue
        pace.moved_some(sum(one.error() is None for one in messages))
    consumer.close()


PRODUCERS: dict[str, Callable[[str, Pace], Any]] = {
    kind.__name__: kind
    for kind in (
        produce_confluent,
        produce_kafka_python,
        produce_aiokafka,
        produce_ottla,
        transact,
    )
}
CONSUMERS: dict[str, Callable[[str, Pace], Any]] = {
    kind.__name__: kind
    for kind in (consume_confluent, consume_aiokafka, consume_ottla, read_committed)
}


if __name__ == "__main__":
    (PRODUCERS | CONSUMERS)[sys.argv[1]](sys.argv[2], Pace())

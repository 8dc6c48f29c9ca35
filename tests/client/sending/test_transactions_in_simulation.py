"""Transactions of the real client with the real broker in one simulated world, under chaos.

Everything follows from the seed. The outcome that the application got is what readers of committed
records see: all of a committed transaction, nothing of an aborted one, all or nothing of one in
doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla import (
    AbortRequired,
    Admin,
    ClientConfig,
    Consumer,
    ConsumerConfig,
    Isolation,
    NewTopic,
    Producer,
    ProducerConfig,
    ProducerUnusable,
    TopicPartition,
    TransactionTimedOut,
)
from ottla.client.administration.features import FeatureUpgrade
from tests.client.support.story import ADDRESS, Story, environment_of, started

if TYPE_CHECKING:
    from ottla.client.process.environment import Environment
    from ottla.protocol.ports import Ports

TOPIC = "t"
PARTITIONS = 2
POSITION = TopicPartition(TOPIC, 0)
COMMITTED_MIN = 10


class Transactional(Story):
    """A producer of transactions and a reader of what is committed."""

    def __init__(self, seed: int, version: int) -> None:
        super().__init__(seed)
        self.version = version
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.in_doubt: set[int] = set()
        self.seen: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        self.position = -1

    @property
    def goes_on(self) -> bool:
        """Until the chaos is over, and some transactions longer if it has allowed few."""
        return self.is_chaos or len(self.committed) < COMMITTED_MIN

    async def _write(self, ports: Ports) -> None:
        environment = environment_of(ports)
        admin = await started(ports, lambda: Admin(ADDRESS, ClientConfig(), environment))
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS))
        if self.version == 1:
            await admin.features.update_features(
                {"transaction.version": 1}, FeatureUpgrade.SAFE_DOWNGRADE
            )
        admin.close()
        self.topic_exists.set()
        number = 0
        while self.goes_on:
            number = await self._session(ports, environment, number)
        self.written.set()

    async def _session(self, ports: Ports, environment: Environment, number: int) -> int:
        """Run transactions of one producer until it fails; return the number of the next one."""
        config = ProducerConfig(
            transactional_id="writer",
            linger_ms=1,
            request_timeout_ms=1_500,
            delivery_timeout_ms=20_000,
            call_timeout_ms=30_000,
        )
        producer = await started(ports, lambda: Producer(ADDRESS, config, environment))
        try:
            await producer.init_transactions()
            while self.goes_on:
                number += 1
                await self._transaction(ports, producer, number)
        except (ProducerUnusable, TransactionTimedOut):
            pass
        finally:
            await producer.close()
        return number

    async def _transaction(self, ports: Ports, producer: Producer, number: int) -> None:
        is_wanted = ports.random.below(4) > 0
        self.in_doubt.add(number)
        await producer.begin_transaction()
        try:
            for partition in range(PARTITIONS):
                await producer.send(TOPIC, b"%d" % number, partition=partition)
                await ports.clock.sleep(ports.random.below(10))
            await producer.send_offsets_to_transaction({POSITION: number}, "g")
            if is_wanted:
                await producer.commit_transaction()
        except AbortRequired:
            is_wanted = False
        if not is_wanted:
            await producer.abort_transaction()
        self.in_doubt.discard(number)
        (self.committed if is_wanted else self.aborted).add(number)

    async def _read(self, ports: Ports) -> None:
        environment = environment_of(ports)
        await self.topic_exists.wait()
        config = ConsumerConfig(
            offset_reset="none", request_timeout_ms=1_500, isolation=Isolation.READ_COMMITTED
        )
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer = await started(ports, lambda: Consumer(ADDRESS, config, environment))
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        while not self.written.is_set():
            await self._take(consumer)
        # Transactions left open have ended by now, or their timeout ends them.
        last = await started(
            ports,
            lambda: Producer(ADDRESS, ProducerConfig(transactional_id="writer"), environment),
        )
        await last.init_transactions()
        await last.close()
        found = await consumer.committed("g", [POSITION])
        ends = await consumer.end_offsets(partitions)
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            await self._take(consumer)
        self.position = found[POSITION].offset if found else -1
        await consumer.close()
        self.finished.set()

    async def _take(self, consumer: Consumer) -> None:
        for record in await consumer.poll(500):
            self.seen[record.partition].append(int(record.value or b""))


@pytest.mark.requirement("TXN-29", "TXN-30", "TXN-31")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_told_is_what_is_seen_whatever_happens(seed: int, version: int) -> None:
    """Kills, restarts, cut and slow links, resets: all or nothing, in both versions."""
    story = Transactional(seed, version)
    story.run()

    first, second = story.seen.values()
    assert first == second
    assert first == sorted(set(first))
    assert story.committed <= set(first)
    assert set(first) <= story.committed | story.in_doubt
    assert story.position == (first[-1] if first else -1)
    assert len(story.committed) >= COMMITTED_MIN

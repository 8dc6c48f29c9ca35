"""The real client and the real broker in one simulated world, under chaos.

Everything follows from the seed. A record whose delivery failed may be in the log or not; every
other one is there exactly once and in order, and a consumer reads the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest

from ottla import (
    Admin,
    ClientConfig,
    ClientError,
    Consumer,
    ConsumerConfig,
    NewTopic,
    Producer,
    ProducerConfig,
    TopicPartition,
)
from ottla.client.environment import Environment
from ottla.client.errors import TransportError
from tests.simulation.chaos import Chaos
from tests.simulation.node import serve
from tests.simulation.subject import build_broker
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Ports
    from tests.simulation.node import Node

SERVER = "broker-0"
ADDRESS = f"{SERVER}:9092"
SETTINGS = {"node.id": "0", "listeners": f"PLAINTEXT://{ADDRESS}", "log.dirs": "/data"}
# No power cuts: one replica without fsync may lose what it has acknowledged, as in Kafka.
FAULTS = ("kill", "stop", "pause", "cut", "cut_one_way", "reset", "hold", "slow")
TOPIC = "t"
PARTITIONS = 2
CHAOS_S = 8.0
PATIENCE_S = 300.0


class Story:
    """One world with a broker, a producer and a consumer."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.server: Node = self.world.node(
            SERVER, serve(lambda ports: build_broker(ports, SETTINGS))
        )
        self.writer = self.world.node("writer", self._write)
        self.reader = self.world.node("reader", self._read)
        self.sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.read: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.failed: set[bytes] = set()
        self._go_on = True
        self._topic_exists = asyncio.Event()
        self._written = asyncio.Event()
        self._finished = asyncio.Event()

    def run(self) -> None:
        """Tell it, and fail with what the world has to say about it."""
        self.world.run(self._tell())
        deaths = [f"{node.name}: {node.deaths}" for node in (self.writer, self.reader)]
        story = "\n".join([*self.world.events[-40:], *deaths])
        assert self.world.violations == [], f"seed {self.world.seed}\n{story}"
        assert self._finished.is_set(), f"seed {self.world.seed} did not come to its end\n{story}"

    async def _tell(self) -> None:
        self.server.start()
        self.writer.start()
        self.reader.start()
        await asyncio.wait_for(self._topic_exists.wait(), PATIENCE_S)
        random = self.world.random.child("chaos")
        chaos = Chaos(self.world, self.server, ["writer", "reader"], random)
        await chaos.run(FAULTS, 700.0, self.world.loop.time() + CHAOS_S)
        await chaos.heal()
        self._go_on = False
        await asyncio.wait_for(self._finished.wait(), PATIENCE_S)

    async def _write(self, ports: Ports) -> None:
        environment = Environment(ports.net, ports.clock, ports.random)
        admin = await started(ports, lambda: Admin(ADDRESS, ClientConfig(), environment))
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS))
        admin.close()
        self._topic_exists.set()
        config = ProducerConfig(
            linger_ms=1, batch_bytes=200, request_timeout_ms=1_500, delivery_timeout_ms=60_000
        )
        producer = await started(ports, lambda: Producer(ADDRESS, config, environment))
        pending = []
        while self._go_on:
            for number in range(PARTITIONS):
                value = b"%d" % len(self.sent[number])
                delivery = await producer.send(TOPIC, value, partition=number)
                self.sent[number].append(value)
                pending.append((b"%d/" % number + value, delivery))
            await ports.clock.sleep(ports.random.below(20))
        await producer.close()
        for name, delivery in pending:
            try:
                await delivery
            except ClientError:
                self.failed.add(name)
        self._written.set()

    async def _read(self, ports: Ports) -> None:
        environment = Environment(ports.net, ports.clock, ports.random)
        await self._topic_exists.wait()
        config = ConsumerConfig(offset_reset="none", request_timeout_ms=1_500)
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer = await started(ports, lambda: Consumer(ADDRESS, config, environment))
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        while not self._written.is_set():
            await self._take(consumer)
        ends = await consumer.end_offsets(partitions)
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            await self._take(consumer)
        await consumer.close()
        self._finished.set()

    async def _take(self, consumer: Consumer) -> None:
        for record in await consumer.poll(500):
            assert record.value is not None
            self.read[record.partition].append(record.value)


class Startable(Protocol):
    """Any of the three clients."""

    async def start(self) -> None: ...


Client = TypeVar("Client", bound=Startable)


async def started(ports: Ports, make: Callable[[], Client]) -> Client:
    """The client, once the broker can be reached; a first contact does not wait by itself."""
    while True:
        client = make()
        try:
            await client.start()
        except TransportError:
            await ports.clock.sleep(50)
        else:
            return client


@pytest.mark.requirement("ARC-17", "IDM-09", "IDM-10")
@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_read_once_and_in_order_whatever_happens(seed: int) -> None:
    """Kills, restarts, cut and slow links, resets: the promises of the default settings."""
    story = Story(seed)
    story.run()

    for number in range(PARTITIONS):
        read = story.read[number]
        assert [int(value) for value in read] == sorted({int(value) for value in read})
        missing = set(story.sent[number]) - set(read)
        assert {b"%d/" % number + value for value in missing} <= story.failed
    assert sum(map(len, story.read.values())) > 100


def test_a_seed_is_one_history() -> None:
    """A failure can be replayed only if the client adds no chance and no clock of its own."""
    digests = []
    for _ in range(2):
        story = Story(3)
        story.run()
        digests.append(story.world.digest())

    assert digests[0] == digests[1]

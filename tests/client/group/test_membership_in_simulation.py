"""Our members of one group and the real broker in one simulated world, under chaos.

Everything follows from the seed. Whatever is killed, paused or cut off: every record is read, and
no member gets a record of a partition that belongs to another member by then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

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
    RebalanceListener,
)
from tests.client.support.story import ADDRESS, SERVER, SETTINGS, environment_of, started
from tests.simulation.chaos import Chaos
from tests.simulation.subject import build_broker
from tests.simulation.world.node import serve
from tests.simulation.world.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Ports
    from tests.simulation.world.node import Node, Program

FAULTS = ("kill", "stop", "pause", "cut", "cut_one_way", "reset", "hold", "slow")
TOPIC = "t"
PARTITIONS = 6
READERS = 3
CHAOS_S = 40.0
PATIENCE_S = 300.0
SESSION_MS = 6_000
GROUP_SETTINGS = {
    **SETTINGS,
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
KINDS: Mapping[str, dict[str, Any]] = {
    "eager": {"assignors": ("range",)},
    "cooperative": {"assignors": ("cooperative-sticky",)},
    "newer protocol": {"group_protocol": "consumer"},
}


class Listener(RebalanceListener):
    """Notes who holds what, in the order in which all this happens."""

    def __init__(self, story: Story, name: str) -> None:
        self._story = story
        self._name = name

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._story.note(self._name, "gets", partitions)
        for where in partitions:
            self._story.holders[where.partition] = self._name

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._story.note(self._name, "gives up", partitions)
        for where in partitions:
            if self._story.holders.get(where.partition) == self._name:
                del self._story.holders[where.partition]

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._story.note(self._name, "has lost", partitions)
        for where in partitions:
            if self._story.holders.get(where.partition) == self._name:
                del self._story.holders[where.partition]


class Story:
    """One world with a broker, a producer, and members that come and go."""

    def __init__(self, seed: int, kind: str) -> None:
        self.world = World(seed)
        self.kind = kind
        self.server: Node = self.world.node(
            SERVER, serve(lambda ports: build_broker(ports, GROUP_SETTINGS))
        )
        self.writer = self.world.node("writer", self._write)
        self.readers = [
            self.world.node(f"reader-{number}", self._reader(f"reader-{number}"))
            for number in range(READERS)
        ]
        self.written: set[tuple[int, int]] = set()
        self.read: dict[tuple[int, int], int] = {}
        self.holders: dict[int, str] = {}
        self.trespasses: list[str] = []
        self._go_on = True
        self._enough = asyncio.Event()
        self._topic_exists = asyncio.Event()
        self._written = asyncio.Event()

    def note(self, name: str, what: str, partitions: Sequence[TopicPartition]) -> None:
        numbers = [where.partition for where in partitions]
        self.world.report(f"{name} {what} {numbers}")

    def run(self) -> None:
        """Run the story, and fail with the events of the world."""
        self.world.run(self._tell())
        deaths = [f"{node.name}: {node.deaths}" for node in self.world.nodes.values()]
        story = "\n".join([*self.world.events[-60:], *deaths])
        assert self.world.violations == [], f"seed {self.world.seed}\n{story}"
        assert self.trespasses == [], f"seed {self.world.seed}\n{story}"
        missing = sorted(self.written - set(self.read))
        assert missing == [], f"seed {self.world.seed}: never read\n{story}"
        assert all(not node.running for node in self.readers), f"{self.world.seed}\n{story}"

    async def _tell(self) -> None:
        for node in (self.server, self.writer, *self.readers):
            node.start()
        await asyncio.wait_for(self._topic_exists.wait(), PATIENCE_S)
        loop, random = self.world.loop, self.world.random.child("chaos")
        names = ["writer", *(node.name for node in self.readers)]
        chaos = Chaos(self.world, self.server, names, random)
        until_s = loop.time() + CHAOS_S
        misfortune = asyncio.ensure_future(self._strike_readers(until_s))
        await chaos.run(FAULTS, 3_000.0, until_s)
        await misfortune
        await chaos.heal()
        self._go_on = False
        await asyncio.wait_for(self._written.wait(), PATIENCE_S)
        deadline_s = loop.time() + PATIENCE_S
        while self.written - set(self.read) and loop.time() < deadline_s:
            await asyncio.sleep(0.5)
        self._enough.set()
        while any(node.running for node in self.readers) and loop.time() < deadline_s + 60:
            await asyncio.sleep(0.5)

    async def _strike_readers(self, until_s: float) -> None:
        """Kill members, or pause them for longer than their session."""
        random = self.world.random.child("readers")
        while self.world.loop.time() < until_s - 12:
            await asyncio.sleep(random.exponential(6_000.0) / 1_000)
            node = random.choice(self.readers)
            if random.chance(0.5):
                node.kill()
                await asyncio.sleep(random.random() * 2)
                node.start()
            else:
                node.pause()
                await asyncio.sleep(random.random() * 2 * SESSION_MS / 1_000)
                node.resume()

    async def _write(self, ports: Ports) -> None:
        environment = environment_of(ports)
        admin = await started(ports, lambda: Admin(ADDRESS, ClientConfig(), environment))
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS))
        admin.close()
        self._topic_exists.set()
        config = ProducerConfig(linger_ms=1, request_timeout_ms=1_500, delivery_timeout_ms=60_000)
        producer = await started(ports, lambda: Producer(ADDRESS, config, environment))
        pending = []
        while self._go_on:
            for number in range(PARTITIONS):
                key = self._draw_key(ports)
                pending.append(await producer.send(TOPIC, b"", key, partition=number))
            await ports.clock.sleep(ports.random.below(200))
        await producer.close()
        for delivery in pending:
            try:
                record = await delivery
            except ClientError:
                continue
            self.written.add((record.partition, record.offset))
        self._written.set()

    def _draw_key(self, _ports: Ports) -> bytes | None:
        return None

    def _reader(self, name: str) -> Program:
        async def read(ports: Ports) -> None:
            await self._topic_exists.wait()
            environment = environment_of(ports)
            config = ConsumerConfig(
                group_id="g",
                offset_reset="earliest",
                request_timeout_ms=1_500,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=1_000,
                auto_commit=False,
                **KINDS[self.kind],
            )
            consumer = await started(ports, lambda: Consumer(ADDRESS, config, environment))
            me = f"{name}.{self.world.nodes[name].incarnation}"
            await consumer.subscribe([TOPIC], Listener(self, me))
            while not self._enough.is_set():
                for record in await consumer.poll(500, 50):
                    self._take(me, record.partition, record.offset)
                try:
                    await consumer.commit()
                except ClientError as error:
                    self.world.report(f"{me}: {error}")
            await consumer.close()

        return read

    def _take(self, me: str, partition: int, offset: int) -> None:
        self.read[partition, offset] = self.read.get((partition, offset), 0) + 1
        holder = self.holders.get(partition)
        if holder != me:
            text = f"{me} reads {partition} at {offset}, which {holder} has"
            self.world.report(text)
            self.trespasses.append(text)


@pytest.mark.requirement("GRP-15")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_everything_is_read_and_nothing_of_anothers(seed: int, kind: str) -> None:
    """Kills of the coordinator and of members, pauses, cut and slow links."""
    story = Story(seed, kind)
    story.run()

    assert len(story.written) > 500
    assert len({holder for holder in story.holders.values()}) <= READERS


def test_a_seed_is_one_history() -> None:
    """A failure can be replayed only if the membership uses no other randomness and clock."""
    digests = []
    for _ in range(2):
        story = Story(3, "cooperative")
        story.run()
        digests.append(story.world.digest())

    assert digests[0] == digests[1]

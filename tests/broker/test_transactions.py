"""Transactions in a cluster: brokers with sockets, and a producer that finds its coordinator again.

The coordinator dies or hands over at each step of a transaction. What its producer was told stays
true, and every partition gets its marker.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.settings.config import ClientConfig
from ottla.coordinator.hashing import partition_for
from ottla.protocol.errors import ErrorCode
from tests.broker.support.brokers import Brokers
from tests.broker.support.requests import TOPIC
from tests.broker.support.transactional import (
    ID,
    STATE_LOG,
    TRANSIENT,
    Producer,
    committed_values,
    coordinator_of,
    read_committed,
    state_labels,
)
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.server.broker import Broker

PARTITIONS = 3
STATE_PARTITIONS = 6
HOME = partition_for(ID, STATE_PARTITIONS)


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    settings = {
        "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    made = Brokers(3, settings)
    await made.start()
    async with Admin(",".join(made.bootstrap), ClientConfig()) as admin:
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS, 3))
    async with connected(made, 1) as client:
        await coordinator_of(client)
    for index in range(PARTITIONS):
        await made.until_in_sync(TOPIC, 3, index)
    await made.until_in_sync(STATE_LOG, 3, HOME)
    yield made
    await made.stop()


@asynccontextmanager
async def connected(brokers: Brokers, node_id: int) -> AsyncIterator[RawClient]:
    address = brokers.alive[node_id].address
    async with RawClient(address.host, address.port) as client:
        yield client


def coordinator(brokers: Brokers) -> Broker:
    """Returns the broker that leads the partition of the id."""
    return brokers.alive[brokers.leader(STATE_LOG, HOME)]


class Session:
    """A producer that looks up the current coordinator and leaders before each request."""

    def __init__(self, brokers: Brokers, version: int = 1) -> None:
        self._brokers = brokers
        self.producer = Producer(RawClient("", 0), version=version)

    async def ask(self, name: str, *arguments: Any, **more: Any) -> None:
        """Call ``try_<name>`` of the producer until it is done."""
        async with asyncio.timeout(60):
            while (error := await self._ask(name, *arguments, **more)) is not ErrorCode.NONE:
                assert error in TRANSIENT, error.name
                await asyncio.sleep(0.02)

    async def decide_to_commit(self) -> None:
        """Repeats the commit until it is decided; the answer may take longer than a client waits.

        A repeated request of a classic producer is refused as retriable until all markers are
        written; one of version 2 gets the first answer again."""
        if self.producer.version == 2:
            before = self.producer.producer_id, self.producer.epoch
            await self.ask("end", committed=True)
            after = self.producer.producer_id, self.producer.epoch
            self.producer.producer_id, self.producer.epoch = before
            await self.ask("end", committed=True)
            assert (self.producer.producer_id, self.producer.epoch) == after
            return
        async with asyncio.timeout(60):
            while (error := await self._ask("end", committed=True)) is not ErrorCode.NONE:
                assert error in TRANSIENT, error.name
                if state_labels(coordinator(self._brokers))[-1] == "PrepareCommit":
                    return
                await asyncio.sleep(0.02)

    async def produce(self, value: bytes, partition: int) -> None:
        """One record, until it is acknowledged; a producer of version 1 adds the partition."""
        if self.producer.version == 1:
            await self.ask("add", partition)
        async with asyncio.timeout(60):
            while True:
                leader = self._brokers.leader(TOPIC, partition)
                if leader in self._brokers.alive:
                    async with connected(self._brokers, leader) as client:
                        self.producer.leader = client
                        error = await self.producer.try_produce(value, partition=partition)
                    if error is ErrorCode.NONE:
                        return
                await asyncio.sleep(0.02)

    async def _ask(self, name: str, *arguments: Any, **more: Any) -> ErrorCode:
        node_id = self._brokers.leader(STATE_LOG, HOME)
        if node_id not in self._brokers.alive:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        async with connected(self._brokers, node_id) as client:
            self.producer.client = client
            result = await getattr(self.producer, f"try_{name}")(*arguments, **more)
        found = ErrorCode(result[0] if isinstance(result, list) else result)
        return found


async def fail_over(brokers: Brokers) -> None:
    """The coordinator dies, and another broker takes its place."""
    await brokers.kill(brokers.leader(STATE_LOG, HOME))
    await brokers.until(lambda: brokers.leader(STATE_LOG, HOME) in brokers.alive)


async def hand_over(brokers: Brokers) -> None:
    """Stops the coordinator in a controlled way and waits for its successor."""
    await brokers.stop_one(brokers.leader(STATE_LOG, HOME))
    await brokers.until(lambda: brokers.leader(STATE_LOG, HOME) in brokers.alive)


async def decided(brokers: Brokers) -> list[list[bytes]]:
    """What read_committed consumers get of each partition, once no transaction is open there."""
    found = []
    for index in range(PARTITIONS):
        await brokers.until(lambda index=index: brokers.leader(TOPIC, index) in brokers.alive)
        async with connected(brokers, brokers.leader(TOPIC, index)) as client:
            async with asyncio.timeout(60):
                while True:
                    one = await read_committed(client, 0, index)
                    if one.error_code == 0 and one.last_stable_offset == one.high_watermark > 0:
                        break
                    await asyncio.sleep(0.02)
            found.append(await committed_values(client, index))
    return found


@pytest.mark.requirement("TXN-24", "TXN-29", "TXN-30")
@pytest.mark.parametrize("version", [1, 2])
async def test_markers_reach_the_leaders_of_all_partitions(brokers: Brokers, version: int) -> None:
    """Each of the three partitions is led by another broker."""
    session = Session(brokers, version)
    await session.ask("init")
    assert len({brokers.leader(TOPIC, index) for index in range(PARTITIONS)}) == 3
    for value, committed in ((b"a", True), (b"b", False), (b"c", True)):
        for index in range(PARTITIONS):
            await session.produce(value, index)
        await session.ask("end", committed=committed)

    assert await decided(brokers) == [[b"a", b"c"]] * 3


async def test_every_broker_names_the_same_coordinator(brokers: Brokers) -> None:
    """A producer asks any of them (TXN-09)."""
    named = set()
    for node_id in brokers.alive:
        async with connected(brokers, node_id) as client:
            named.add(await coordinator_of(client))

    assert named == {brokers.leader(STATE_LOG, HOME)}


@pytest.mark.requirement("TXN-06", "TXN-50")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("change", [fail_over, hand_over])
async def test_a_coordinator_that_goes_before_the_end_is_decided_loses_nothing(
    brokers: Brokers, version: int, change: Any
) -> None:
    """The next one has read that the transaction is open, and of which partitions (T-20)."""
    session = Session(brokers, version)
    await session.ask("init")
    for index in range(PARTITIONS):
        await session.produce(b"x", index)
    await change(brokers)
    await session.ask("end", committed=True)

    assert await decided(brokers) == [[b"x"]] * 3


@pytest.mark.requirement("TXN-51", "TXN-55", "TXN-56")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("committed", [True, False])
async def test_a_coordinator_that_dies_after_the_decision_leaves_the_markers_to_the_next(
    brokers: Brokers, version: int, committed: bool
) -> None:
    """The producer was told that it is committed and would never ask again."""
    session = Session(brokers, version)
    await session.ask("init")
    for index in range(PARTITIONS):
        await session.produce(b"x", index)
    # Some markers leave before it dies, or none.
    sender = coordinator(brokers).parts.coordinators.transactions.effects.markers
    sender.close()
    await session.ask("end", committed=committed)
    await fail_over(brokers)

    assert await decided(brokers) == [[b"x"] if committed else []] * 3
    await session.ask("init")


@pytest.mark.requirement("TXN-52")
@pytest.mark.parametrize("version", [1, 2])
async def test_the_next_coordinator_answers_a_repeated_end_as_the_last_one_did(
    brokers: Brokers, version: int
) -> None:
    """The answer was lost with the broker that gave it."""
    session = Session(brokers, version)
    producer = session.producer
    await session.ask("init")
    await session.produce(b"x", 0)
    before = producer.producer_id, producer.epoch
    await session.ask("end", committed=True)
    after = producer.producer_id, producer.epoch
    await brokers.until(lambda: state_labels(coordinator(brokers))[-1] == "CompleteCommit")
    await brokers.until_equal(STATE_LOG, HOME)
    await fail_over(brokers)
    producer.producer_id, producer.epoch = before
    await session.ask("end", committed=True)

    assert (producer.producer_id, producer.epoch) == after


@pytest.mark.requirement("TXN-33", "TXN-60")
@pytest.mark.parametrize("version", [1, 2])
async def test_one_dead_partition_holds_up_only_its_own_readers(
    brokers: Brokers, version: int
) -> None:
    """The outcome is decided, the others have it, and the last one gets it when it is back."""
    async with Admin(",".join(brokers.bootstrap), ClientConfig()) as admin:
        lonely = next(one for one in brokers.alive if one != brokers.leader(STATE_LOG, HOME))
        await admin.create_topic(NewTopic("lonely", assignment=[[lonely]]))
    await brokers.until(lambda: brokers.leader("lonely") == lonely)
    session = Session(brokers, version)
    await session.ask("init")
    if version == 1:
        await session.ask("add", 0, topic="lonely")
    async with connected(brokers, lonely) as client:
        session.producer.leader = client
        assert await session.producer.try_produce(b"y", topic="lonely") is ErrorCode.NONE
    for index in range(PARTITIONS):
        await session.produce(b"x", index)
    await brokers.kill(lonely)
    await brokers.until(lambda: brokers.leader("lonely") == -1)
    await session.decide_to_commit()

    assert await decided(brokers) == [[b"x"]] * 3
    assert state_labels(coordinator(brokers))[-1] == "PrepareCommit"
    await brokers.start_one(lonely)
    await brokers.until(lambda: state_labels(coordinator(brokers))[-1] == "CompleteCommit")
    async with connected(brokers, lonely) as client:
        assert await committed_values(client, topic="lonely") == [b"y"]


async def test_a_topic_that_is_deleted_in_the_middle_holds_up_no_transaction(
    brokers: Brokers,
) -> None:
    """No consumer will ever read what its marker would end."""
    async with Admin(",".join(brokers.bootstrap), ClientConfig()) as admin:
        await admin.create_topic(NewTopic("gone", 1, 3))
        await brokers.until(lambda: brokers.leader("gone") > 0)
        session = Session(brokers)
        await session.ask("init")
        await session.ask("add", 0, topic="gone")
        for index in range(PARTITIONS):
            await session.produce(b"x", index)
        await admin.delete_topics(["gone"])
    await session.ask("end", committed=True)

    await brokers.until(lambda: state_labels(coordinator(brokers))[-1] == "CompleteCommit")
    assert await decided(brokers) == [[b"x"]] * 3


@pytest.mark.requirement("TXN-54", "TXN-57", "TXN-58")
async def test_the_time_of_a_transaction_runs_out_also_with_the_next_coordinator(
    brokers: Brokers,
) -> None:
    """Its producer seemed gone, and so is who counted. When it wakes, each of the three leaders
    refuses its epoch."""
    session = Session(brokers)
    await session.ask("init", timeout_ms=500)
    for index in range(PARTITIONS):
        await session.produce(b"x", index)
    epoch = session.producer.epoch
    await fail_over(brokers)

    assert await decided(brokers) == [[]] * 3
    refused = {}
    for index in range(PARTITIONS):
        leader = brokers.leader(TOPIC, index)
        async with connected(brokers, leader) as client:
            session.producer.leader = client
            refused[index] = await session.producer.try_produce(b"late", partition=index)
    assert refused == dict.fromkeys(range(PARTITIONS), ErrorCode.INVALID_PRODUCER_EPOCH)
    await session.ask("init")
    assert session.producer.epoch > epoch + 1

"""Coordinators and leaders that one broker knows of and another one does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla import Consumer, ConsumerConfig, Producer, ProducerConfig, TopicPartition
from ottla.client.process.environment import Environment
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.client.support.toy_broker import ToyCluster
from tests.simulation.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.protocol.ports import Ports
    from tests.client.support.toy_broker import Seen

WHERE = TopicPartition("t", 0)
STALE, OTHER = 1, 2
AT_COORDINATOR = (ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID)
PATIENCE_MS = 3_000
# Ten a second: longer than any call may take.
LOOKS_MAX = 2_000


def tell(story: Callable[[ToyCluster, Environment], Coroutine[None, None, None]]) -> float:
    """Run with two brokers, the first of which never learns the coordinator; return the time
    taken."""
    world = World(7)
    took_ms: list[float] = []

    async def program(ports: Ports) -> None:
        toy = ToyCluster(ports.net)
        toy.start(2)
        toy.add_topic("t")
        toy.transactions.node_id = OTHER
        started_ms = ports.clock.now_ms()
        await story(toy, Environment(ports.net, ports.clock, ports.random))
        took_ms.append(ports.clock.now_ms() - started_ms)
        toy.close()

    async def until_told() -> None:
        node = world.node("site", program)
        node.start()
        for _ in range(LOOKS_MAX):
            if took_ms:
                break
            await asyncio.sleep(0.1)

    world.run(until_told())
    assert took_ms, world.events[-5:]
    return took_ms[0]


def refuse(seen: Seen) -> ErrorCode | None:
    """Refuse requests at a broker that is not the coordinator."""
    if seen.api_key in AT_COORDINATOR and seen.node_id != OTHER:
        return ErrorCode.NOT_COORDINATOR
    return None


def find_nothing(seen: Seen) -> ErrorCode | None:
    """The stale broker does not know of any coordinator."""
    if seen.api_key is ApiKey.FIND_COORDINATOR and seen.node_id == STALE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return None


@pytest.mark.parametrize("judge", [refuse, find_nothing])
def test_positions_are_found_behind_a_broker_that_is_out_of_date(
    judge: Callable[[Seen], ErrorCode | None],
) -> None:
    """The client is connected to that one alone, and would ask it until its time is over."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.judge = judge
        toy.transactions.misled[STALE] = STALE
        config = ConsumerConfig(group_id="g", offset_reset="earliest", auto_commit=False)
        async with Consumer(str(toy.nodes[STALE].address), config, environment) as consumer:
            consumer.assign([WHERE])
            await consumer.commit({WHERE: 3})

    assert tell(story) < PATIENCE_MS


@pytest.mark.parametrize("judge", [refuse, find_nothing])
def test_a_transactional_id_is_found_behind_a_broker_that_is_out_of_date(
    judge: Callable[[Seen], ErrorCode | None],
) -> None:
    """Transactional ids are looked up as the offsets of groups are."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.judge = judge
        toy.transactions.misled[STALE] = STALE
        config = ProducerConfig(transactional_id="t")
        async with Producer(str(toy.nodes[STALE].address), config, environment) as producer:
            await producer.init_transactions()

    assert tell(story) < PATIENCE_MS


def test_leaders_are_found_behind_a_broker_that_is_out_of_date() -> None:
    """The stale broker names itself as the leader and refuses requests for that partition."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.misled[STALE] = STALE
        toy.topics["t"].partitions[0].leader_id = OTHER
        address = str(toy.nodes[STALE].address)
        async with Producer(address, ProducerConfig(), environment) as producer:
            await (await producer.send("t", b"x"))

    assert tell(story) < 3 * PATIENCE_MS


def test_one_broker_is_asked_again_when_there_is_no_other() -> None:
    """A single broker must be retried although it has failed."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.nodes.pop(STALE)
        failures = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3

        def judge(seen: Seen) -> ErrorCode | None:
            if seen.api_key is ApiKey.FIND_COORDINATOR and failures:
                return failures.pop()
            return None

        toy.judge = judge
        config = ConsumerConfig(group_id="g", offset_reset="earliest", auto_commit=False)
        async with Consumer(str(toy.nodes[OTHER].address), config, environment) as consumer:
            consumer.assign([WHERE])
            await consumer.commit({WHERE: 3})

    assert tell(story) < 2 * PATIENCE_MS

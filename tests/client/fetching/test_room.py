"""Callers that wait for a producer's memory are served in order of arrival."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.testing.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.settings.config import ProducerConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.ids import TopicPartition
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientClosed
from tests.client.sending.test_bulk import stored
from tests.client.support.toy_broker import Fate

if TYPE_CHECKING:
    from tests.client.support.toy_broker import Seen, ToyCluster

QUICK = Backoff(1, 5)
LARGE = bytes(90_000)


def tight(toy: ToyCluster, linger_ms: float = 0) -> Producer:
    """A producer that has no room for a large record beside others."""
    config = ProducerConfig(
        memory_bytes_max=100_000,
        batch_bytes=16_000,
        linger_ms=linger_ms,
        retry_backoff=QUICK,
        reconnect_backoff=QUICK,
    )
    return Producer(toy.bootstrap, config)


def silent(seen: Seen) -> Fate | None:
    """Leave Produce requests unanswered."""
    return Fate.SWALLOW if seen.api_key is ApiKey.PRODUCE else None


async def filled(toy: ToyCluster, producer: Producer) -> asyncio.Task[object]:
    """Fill the memory; return a send that waits behind a record in flight."""
    toy.judge = silent
    await producer.send("t", bytes(20_000))
    waiting = asyncio.ensure_future(producer.send("t", LARGE))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    return waiting


async def test_nothing_lingers_while_a_caller_waits_for_room(toy: ToyCluster) -> None:
    """Batches wait for more records to come; who has them cannot get them in."""
    topic = toy.add_topic("t", 2)
    async with tight(toy, linger_ms=60_000) as producer:
        await producer.send("t", bytes(12_000), partition=0)
        async with asyncio.timeout(5):
            await producer.send("t", LARGE, partition=1)

    assert [record.value for record in stored(topic, 1)] == [LARGE]


@pytest.mark.parametrize("is_batch", [False, True])
async def test_large_records_get_in_beside_many_small_ones(toy: ToyCluster, is_batch: bool) -> None:
    """Small records would take every freed byte at once."""
    topic = toy.add_topic("t")
    is_over = False

    async def send_small_ones(producer: Producer) -> None:
        while not is_over:
            await producer.send("t", bytes(4_000))

    async with tight(toy) as producer, asyncio.TaskGroup() as others:
        for _ in range(100):
            others.create_task(send_small_ones(producer))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(10):
            if is_batch:
                await producer.send_batch("t", [LARGE])
            else:
                await producer.send("t", LARGE)
        is_over = True

    assert [record.value for record in stored(topic)].count(LARGE) == 1


async def test_who_comes_later_waits_behind(toy: ToyCluster) -> None:
    """A small record that would fit waits as well; once there are no waiters, sends go on."""
    topic = toy.add_topic("t")
    async with tight(toy) as producer:
        waiting = await filled(toy, producer)
        behind = asyncio.ensure_future(producer.send("t", b"small"))
        await asyncio.sleep(0.01)
        assert not behind.done()
        toy.judge = lambda _: None
        toy.nodes[1].drop_connections()
        await asyncio.gather(waiting, behind)
        await producer.send("t", b"last")

    sizes = [len(record.value or b"") for record in stored(topic)]
    assert sizes == [20_000, len(LARGE), len(b"small"), len(b"last")]


async def test_a_caller_that_gives_up_waiting_holds_up_no_other(toy: ToyCluster) -> None:
    """The room that was kept for it is there for all others."""
    topic = toy.add_topic("t")
    async with tight(toy) as producer:
        waiting = await filled(toy, producer)
        waiting.cancel()
        await asyncio.wait([waiting])
        async with asyncio.timeout(5):
            await producer.send("t", b"small")
        toy.judge = lambda _: None
        toy.nodes[1].drop_connections()

    assert [len(record.value or b"") for record in stored(topic)] == [20_000, len(b"small")]


async def test_a_producer_that_closes_takes_nothing_from_those_who_wait(toy: ToyCluster) -> None:
    """A record that a closed producer accepted would never be sent and never fail."""
    toy.add_topic("t")
    producer = tight(toy)
    await producer.start()
    waiting = await filled(toy, producer)
    behind = asyncio.ensure_future(producer.send("t", b"small"))
    await asyncio.sleep(0.01)
    await producer.close(deliver=False)

    for sent in (waiting, behind):
        with pytest.raises(ClientClosed):
            await sent


async def test_without_acknowledgements_memory_is_bounded_as_well() -> None:
    """Records that the kernel does not take stay in the producer, and are sent at its close."""
    count, settings = 20_000, ProducerConfig(acks=0, memory_bytes_max=1_000_000)
    async with Cluster() as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap_servers, settings) as producer:

            async def send_all() -> None:
                for _ in range(count):
                    await producer.send("t", bytes(1_000))

            await producer.partition_count("t")
            cluster.faults.pause(1)
            sending = asyncio.ensure_future(send_all())
            await asyncio.wait([sending], timeout=1)
            assert not sending.done()
            cluster.faults.resume(1)
            await sending
        where = TopicPartition("t", 0)
        async with Consumer(cluster.bootstrap_servers) as reader, asyncio.timeout(10):
            while (await reader.end_offsets([where]))[where] < count:
                await asyncio.sleep(0.05)


async def test_what_does_not_leave_is_not_waited_for_for_ever() -> None:
    """With acks=0 no broker answers, so a record that cannot leave gets the request timeout."""
    settings = ProducerConfig(
        acks=0, memory_bytes_max=20_000_000, request_timeout_ms=300, delivery_timeout_ms=600
    )
    async with Cluster() as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap_servers, settings) as producer:
            await producer.partition_count("t")
            cluster.faults.pause(1)
            for _ in range(15_000):
                await producer.send("t", bytes(1_000))
            async with asyncio.timeout(10):
                await producer.flush()
            cluster.faults.resume(1)
        where = TopicPartition("t", 0)
        async with Consumer(cluster.bootstrap_servers) as reader:
            assert (await reader.end_offsets([where]))[where] < 15_000

"""A test-suite of a program that uses Ottla's own client; the cluster without its fixtures.

pip install ottla pytest-asyncio
pytest examples/testing
"""

from __future__ import annotations

import pytest

import ottla

# ---- the program ----


async def relay(servers: str, source: str, target: str, count: int) -> None:
    """Copy so many records, each exactly once."""
    async with (
        ottla.Consumer(servers, offset_reset="earliest") as consumer,
        ottla.Producer(servers) as producer,
    ):
        consumer.assign(await consumer.partitions_of(source))
        async for record in consumer:
            delivery = await producer.send(target, record.value, key=record.key)
            await delivery
            count -= 1
            if not count:
                return


# ---- its tests ----


async def test_what_goes_in_comes_out() -> None:
    async with ottla.Cluster() as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("source")
        cluster.create_topic("target")
        await put(servers, "source", [b"a", b"b"])

        await relay(servers, "source", "target", 2)

        assert await values(servers, "target", 2) == [b"a", b"b"]


@pytest.mark.parametrize("api", ["Produce", "Fetch", "Metadata"])
async def test_a_lost_reply_loses_and_doubles_nothing(api: str) -> None:
    async with ottla.Cluster(brokers=3) as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("source")
        cluster.create_topic("target")
        await put(servers, "source", [b"a", b"b", b"c"])
        cluster.faults.lose_reply(api, count=2)

        await relay(servers, "source", "target", 3)

        assert await values(servers, "target", 3) == [b"a", b"b", b"c"]


async def test_what_is_too_old_is_gone() -> None:
    """Eight days within seconds."""
    async with ottla.Cluster() as cluster:
        configs = {"retention.ms": 7 * 86_400_000, "message.timestamp.type": "LogAppendTime"}
        cluster.create_topic("source", configs=configs)
        servers = cluster.bootstrap_servers
        await put(servers, "source", [b"old"])
        cluster.faults.advance(8 * 86_400_000)
        await put(servers, "source", [b"young"])

        assert await values(servers, "source", 1) == [b"young"]


async def put(servers: str, topic: str, values: list[bytes]) -> None:
    async with ottla.Producer(servers) as producer:
        for value in values:
            await producer.send(topic, value)


async def values(servers: str, topic: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with ottla.Consumer(servers, offset_reset="earliest") as consumer:
        consumer.assign(await consumer.partitions_of(topic))
        async for record in consumer:
            found.append(record.value)
            if len(found) == count:
                break
    return found

"""A test-suite of a program that uses aiokafka: coroutines, run by pytest-asyncio.

    pip install ottla aiokafka pytest-asyncio
    pytest examples/testing

The brokers have a thread and an event loop of their own: the test's loop is all the test's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError

from ottla.pytest_plugin import topic_fixture

if TYPE_CHECKING:
    import ottla

# ---- the program ----


async def count_words(consumer: AIOKafkaConsumer, limit: int) -> Counter[str]:
    """Count the words of so many lines."""
    words: Counter[str] = Counter()
    for _ in range(limit):
        line = await consumer.getone()
        words.update(line.value.decode().split())
    return words


# ---- its tests ----

# A variant of a fixture: three partitions, in the cluster that the session shares.
wide_topic = topic_fixture("ottla_broker", partitions=3)


async def send(bootstrap_servers: str, topic: str, lines: list[str]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
        for line in lines:
            await producer.send_and_wait(topic, line.encode())


def consumer_of(bootstrap_servers: str, topic: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id="counters",
        auto_offset_reset="earliest",
    )


async def test_words_of_all_partitions_are_counted(
    ottla_broker: ottla.Cluster, wide_topic: str
) -> None:
    await send(ottla_broker.bootstrap_servers, wide_topic, ["a rose", "is a rose", "is a rose"])

    async with consumer_of(ottla_broker.bootstrap_servers, wide_topic) as consumer:
        words = await asyncio.wait_for(count_words(consumer, 3), 20)

    assert words == {"a": 3, "rose": 3, "is": 2}


async def test_lines_are_counted_although_a_broker_dies(
    ottla_cluster: ottla.Cluster, ottla_topic: str
) -> None:
    servers = ottla_cluster.bootstrap_servers
    await send(servers, ottla_topic, ["before"])
    async with consumer_of(servers, ottla_topic) as consumer:
        before = await asyncio.wait_for(count_words(consumer, 1), 20)

        ottla_cluster.faults.kill(ottla_cluster.leader(ottla_topic))
        await send(servers, ottla_topic, ["after"])
        after = await asyncio.wait_for(count_words(consumer, 1), 30)

    assert before + after == {"before": 1, "after": 1}


async def test_a_refusal_reaches_the_program(
    ottla_cluster: ottla.Cluster, ottla_topic: str
) -> None:
    """An error that a test could hardly make otherwise."""
    ottla_cluster.faults.fail_request("Produce", "TOPIC_AUTHORIZATION_FAILED")

    with pytest.raises(TopicAuthorizationFailedError):
        await send(ottla_cluster.bootstrap_servers, ottla_topic, ["secret"])

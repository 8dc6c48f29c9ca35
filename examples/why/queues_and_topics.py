"""Queue and topic: one mechanism, consumer groups, gives both delivery semantics of JMS.

    python -m examples.why.queues_and_topics [--quick]

A topic with four partitions and 1,000 records. Four consumers in one group share the records, as
the receivers of a queue do. Four consumers in four groups get all records each, as the subscribers
of a topic do. What was read stays in the log.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack
from typing import NamedTuple, TypeAlias

import ottla
from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table

TOPIC = "orders"
PARTITIONS = 4
CONSUMERS = 4
RECORDS = 1_000
Reader: TypeAlias = "ottla.Consumer[bytes, bytes]"


class Delivered(NamedTuple):
    """How many records each consumer got, and how many records were delivered how often."""

    kind: str
    by_consumer: list[int]
    times_delivered: dict[int, int]


def measure(quick: bool) -> list[Delivered]:
    """One group of four, then four groups of one; ``quick`` changes nothing."""
    return asyncio.run(measure_both())


async def measure_both() -> list[Delivered]:
    """On one broker. The queue's records are sent when its group is complete."""
    async with ottla.Cluster() as cluster, AsyncExitStack() as stack:
        await asyncio.to_thread(cluster.create_topic, TOPIC, PARTITIONS)
        servers = cluster.bootstrap_servers
        queue = await joined(stack, servers, ["workers"] * CONSUMERS)
        while any(len(consumer.assignment) != PARTITIONS // CONSUMERS for consumer in queue):
            await asyncio.gather(*(consumer.poll(50) for consumer in queue))
        async with ottla.Producer(servers) as producer:
            for number in range(RECORDS):
                await producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        groups = [f"subscriber-{number}" for number in range(CONSUMERS)]
        return [
            await consume("queue: one group", queue, RECORDS),
            await consume(
                "topic: a group each",
                await joined(stack, servers, groups),
                RECORDS * CONSUMERS,
            ),
        ]


async def joined(stack: AsyncExitStack, servers: str, group_ids: list[str]) -> list[Reader]:
    """A consumer for each name of a group."""
    consumers: list[Reader] = []
    for group_id in group_ids:
        consumer = ottla.Consumer(
            servers, group_id=group_id, offset_reset="earliest", heartbeat_interval_ms=100
        )
        consumers.append(await stack.enter_async_context(consumer))
        await consumer.subscribe([TOPIC])
    return consumers


async def consume(kind: str, consumers: list[Reader], wanted: int) -> Delivered:
    """Read until so many records have been delivered, and a moment longer."""
    got: list[Counter[bytes]] = [Counter() for _ in consumers]
    is_complete = False
    while not is_complete:
        is_complete = sum(count.total() for count in got) >= wanted
        polled = await asyncio.gather(*(consumer.poll(200) for consumer in consumers))
        for count, records in zip(got, polled, strict=True):
            count.update(record.value or b"" for record in records)
    together = sum(got, Counter[bytes]())
    return Delivered(kind, [count.total() for count in got], dict(Counter(together.values())))


def show(both: list[Delivered]) -> Shown:
    """A row for each kind, a bar for each consumer."""
    rows = [
        (
            one.kind,
            *one.by_consumer,
            ", ".join(f"{n} records {times}x" for times, n in one.times_delivered.items()),
        )
        for one in both
    ]
    bars = [
        Bar(f"{one.kind}, consumer {number}", count, str(count), index)
        for index, one in enumerate(both)
        for number, count in enumerate(one.by_consumer, 1)
    ]
    queue, topic = both
    return Shown(
        table(["1,000 records", "first", "second", "third", "fourth", "delivered"], rows),
        bar_chart("Records that each consumer got", bars),
        holds=queue.times_delivered == {1: RECORDS}
        and all(queue.by_consumer)
        and topic.times_delivered == {CONSUMERS: RECORDS}
        and topic.by_consumer == [RECORDS] * CONSUMERS,
    )


if __name__ == "__main__":
    sys.exit(run("queues_and_topics", measure, show))

"""``ottla perf``: measures how fast a cluster accepts and returns records.

Unless a topic is named, one is created for the measurement and always deleted at its end.
"""

from __future__ import annotations

import secrets
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cli.output import write
from ottla.client.cli.progress import ProgressLine
from ottla.client.cli.records.perf_figures import Figures, as_document, as_text
from ottla.client.cli.records.perf_load import Load, fill
from ottla.client.cli.run import CommandError, run
from ottla.client.cli.settings import command_config, consumer_config, perf_producer_config
from ottla.client.consumer import Consumer
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP
from ottla.client.producer import Producer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

POLL_MS = 1_000.0
RECORDS_PER_POLL = 5_000
WAIT_MS_MAX = 30_000.0


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments, is_busy=True)


async def perform(arguments: argparse.Namespace) -> int:
    """Measure, and write the results."""
    async with topic_for(arguments) as topic:
        match arguments.verb:
            case "produce":
                figures = await measure_produce(topic, arguments)
            case "consume":
                figures = await measure_consume(topic, arguments)
            case _:
                assert arguments.verb == "latency"
                figures = await measure_latency(topic, arguments)
    write(as_document(figures) if arguments.format == "json" else as_text(figures))
    return 0


@asynccontextmanager
async def topic_for(arguments: argparse.Namespace) -> AsyncIterator[str]:
    """The named topic, or a temporary one for the measurement."""
    async with Admin(arguments.bootstrap, command_config()) as admin:
        if arguments.topic is not None:
            await admin.describe_topic(arguments.topic)
            yield arguments.topic
            return
        name = f"ottla-perf-{secrets.token_hex(4)}"
        await admin.create_topic(NewTopic(name, 1))
        try:
            yield name
        finally:
            results = await admin.delete_topics([name])
            refused = results[name]
            if refused is not None and refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RequestRefused(refused.code, refused.message, topic=name)


async def measure_produce(topic: str, arguments: argparse.Namespace) -> Figures:
    """Measure from the first send until the last acknowledgement; a record's latency is from its
    send to its acknowledgement."""
    config = perf_producer_config(arguments)
    async with Producer(arguments.bootstrap, config) as producer:
        load = Load(producer, topic, arguments)
        with ProgressLine("records", arguments.records) as progress:
            seconds = await load.run(progress)
    size_bytes = arguments.records * arguments.size
    return Figures("produce", topic, arguments.records, size_bytes, seconds, load.latencies_ms)


async def measure_consume(topic: str, arguments: argparse.Namespace) -> Figures:
    """Measure from the first fetch until the wanted records, or all there are, have arrived."""
    if arguments.topic is None:
        await fill(topic, arguments)
    async with Consumer(arguments.bootstrap, consumer_config(read_committed=False)) as consumer:
        partitions = await consumer.partitions_of(topic)
        firsts = await consumer.offsets_at(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        ends = await consumer.end_offsets(partitions)
        available = sum(ends[where] - firsts[where].offset for where in partitions)
        if available == 0:
            raise CommandError(f"topic {topic!r} is empty; 'ottla perf produce {topic}' fills it")
        wanted = min(arguments.records, available)
        begun = time.monotonic()
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        with ProgressLine("records", wanted) as progress:
            count, size_bytes = await _read(consumer, wanted, progress, batches=arguments.batch)
        seconds = time.monotonic() - begun
    return Figures("consume", topic, count, size_bytes, seconds)


async def _read(
    consumer: Consumer, wanted: int, progress: ProgressLine, *, batches: bool
) -> tuple[int, int]:
    """The number of records that arrived, and of bytes: of values, or of undecoded batches."""
    count = size_bytes = 0
    quiet_ms = 0.0
    while count < wanted and quiet_ms < WAIT_MS_MAX:
        if batches:
            fetched = await consumer.poll_batches(POLL_MS)
            new = sum(batch.header.record_count for batch in fetched)
            size_bytes += sum(batch.header.size_bytes for batch in fetched)
        else:
            records = await consumer.poll(POLL_MS, RECORDS_PER_POLL)
            new = len(records)
            size_bytes += sum(len(record.value or b"") for record in records)
        # Markers and compacted records leave offsets without records.
        quiet_ms = 0.0 if new else quiet_ms + POLL_MS
        if not new and _is_at_end(consumer):
            break
        count += new
        progress.add(new)
    return count, size_bytes


def _is_at_end(consumer: Consumer) -> bool:
    return all(consumer.lag(where) == 0 for where in consumer.assignment)


async def measure_latency(topic: str, arguments: argparse.Namespace) -> Figures:
    """Measure one record after the other, each from its send until a consumer has it."""
    latencies: list[float] = []
    value = secrets.token_bytes(arguments.size)
    where = TopicPartition(topic, 0)
    between = 0.0 if arguments.rate is None else 1.0 / arguments.rate
    config = perf_producer_config(arguments, linger_ms=0)
    async with (
        Producer(arguments.bootstrap, config) as producer,
        Consumer(arguments.bootstrap, consumer_config(read_committed=False)) as consumer,
    ):
        ends = await consumer.end_offsets([where])
        consumer.assign([where])
        consumer.seek(where, ends[where])
        # Warm up: a producer's first record waits for its id, and a consumer's for a fetch.
        await _one_way(producer, consumer, where, value)
        begun = time.monotonic()
        with ProgressLine("records", arguments.records) as progress:
            for number in range(arguments.records):
                due = begun + number * between
                while (left := due - time.monotonic()) > 0:
                    await consumer.poll(min(POLL_MS, left * 1000))
                latencies.append(await _one_way(producer, consumer, where, value))
                progress.add(1)
        seconds = time.monotonic() - begun
    size_bytes = arguments.records * arguments.size
    return Figures("latency", topic, arguments.records, size_bytes, seconds, latencies)


async def _one_way(
    producer: Producer, consumer: Consumer, where: TopicPartition, value: bytes
) -> float:
    """The time of one record, in ms. Raises CommandError if it does not arrive."""
    begun = time.monotonic()
    delivery = await producer.send(where.topic, value, partition=where.partition)
    while not await consumer.poll(POLL_MS):
        if (time.monotonic() - begun) * 1000 > WAIT_MS_MAX:
            await delivery
            raise CommandError(f"a record did not come to the consumer within {WAIT_MS_MAX} ms")
    arrived = time.monotonic()
    await delivery
    return (arrived - begun) * 1000

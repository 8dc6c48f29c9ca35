"""How fast clients get records in and out of a broker: for quotas.

A pace is bytes of values per second between the first and the last record that counted, so that
what a client does before and after is no part of it.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import aiokafka
import confluent_kafka

import ottla
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import java_classpath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOOLS = "org.apache.kafka.tools"
VALUE_BYTES = 1_000
# Small beside what passes in a second, so that the last request of a run does not matter.
REQUEST_BYTES = 50_000


class _Count:
    """Bytes and the time that they took."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = self._last = 0.0
        self._size_bytes = -1

    @property
    def is_over(self) -> bool:
        return bool(self._began) and time.monotonic() - self._began > self._seconds

    def add(self, size_bytes: int) -> None:
        """So much came at once. What came first was before the first moment."""
        now = time.monotonic()
        if not self._began:
            self._began = now
            self._size_bytes = 0
        elif not self.is_over:
            self._size_bytes += size_bytes
            self._last = now

    @property
    def pace(self) -> float:
        return self._size_bytes / (self._last - self._began)


def produced_by_librdkafka(address: str, topic: str, client_id: str, seconds: float) -> float:
    """As fast as it can, in requests of many records, many at a time."""
    count = _Count(seconds)

    def on_delivery(error: object, message: confluent_kafka.Message) -> None:
        assert error is None, error
        count.add(VALUE_BYTES)

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "client.id": client_id,
            "acks": "all",
            "batch.size": REQUEST_BYTES,
            "queue.buffering.max.messages": 1_000,
        }
    )
    value = os.urandom(VALUE_BYTES)
    while not count.is_over:
        try:
            producer.produce(topic, value, partition=0, on_delivery=on_delivery)
        except BufferError:
            producer.poll(0.05)
    producer.flush(60)
    return count.pace


def consumed_by_librdkafka(address: str, topic: str, client_id: str, seconds: float) -> float:
    """One partition from its beginning."""
    count = _Count(seconds)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    while not count.is_over:
        for message in consumer.consume(500, 0.05):
            assert message.error() is None, message.error()
            count.add(VALUE_BYTES)
    consumer.close()
    return count.pace


def consumed_by_aiokafka(address: str, topic: str, client_id: str, seconds: float) -> float:
    """One partition from its beginning."""
    count = _Count(seconds)

    async def consume() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address, client_id=client_id, enable_auto_commit=False
        )
        await consumer.start()
        partition = aiokafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        while not count.is_over:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                count.add(len(records) * VALUE_BYTES)
        await consumer.stop()

    asyncio.run(consume())
    return count.pace


def produced_by_ottla(address: str, topic: str, client_id: str, seconds: float) -> float:
    """As fast as it can, with a megabyte on the way."""
    count = _Count(seconds)

    async def produce() -> None:
        value = os.urandom(VALUE_BYTES)
        async with ottla.Producer(
            address,
            client_id=client_id,
            batch_bytes=REQUEST_BYTES,
            memory_bytes_max=1_000_000,
            on_delivery=lambda report: count.add(report.record_count * VALUE_BYTES),
        ) as producer:
            while not count.is_over:
                await producer.send(topic, value, partition=0)

    asyncio.run(produce())
    return count.pace


def consumed_by_ottla(address: str, topic: str, client_id: str, seconds: float) -> float:
    """One partition from its beginning."""
    count = _Count(seconds)
    with ottla.sync.Consumer(address, client_id=client_id) as consumer:
        partition = ottla.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        while not count.is_over:
            for batch in consumer.poll_batches(50):
                count.add((batch.next_offset - batch.base_offset) * VALUE_BYTES)
    return count.pace


@contextmanager
def _java(tool: str, *arguments: str) -> Iterator[Iterator[str]]:
    """The lines of one of Kafka's tools, which is killed at the end."""
    needs("java", "mvn")
    command = ["java", "-Xmx256m", "-cp", java_classpath(JAVA_VERSIONS[0]), f"{TOOLS}.{tool}"]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
        finally:
            process.kill()


def produced_by_java(address: str, topic: str, client_id: str, seconds: float) -> float:
    """As fast as it can. It tells every five seconds what it has sent in them."""
    settings = {
        "bootstrap.servers": address,
        "client.id": client_id,
        "acks": "all",
        "batch.size": REQUEST_BYTES,
        "buffer.memory": 1_000_000,
    }
    load = ("--topic", topic, "--num-records", "1000000000", "--record-size", str(VALUE_BYTES))
    properties = [f"{name}={value}" for name, value in settings.items()]
    command = (*load, "--throughput", "-1", "--producer-props", *properties)
    count, windows, passed_s, said = 0, 0, 0.0, list[str]()
    with _java("ProducerPerformance", *command) as lines:
        for line in lines:
            said.append(line)
            told = re.match(r"(\d+) records sent, ([\d.]+) records/sec", line)
            if told is None:
                continue
            windows += 1
            # The first has the start in it.
            if windows > 1:
                count += int(told[1])
                passed_s += int(told[1]) / float(told[2])
            if passed_s > seconds - 1:
                return count * VALUE_BYTES / passed_s
    raise AssertionError("".join(said))


def consumed_by_java(address: str, topic: str, client_id: str, seconds: float) -> float:
    """From the beginning. It tells every second the date, and how many records it has by then."""
    load = ("--bootstrap-server", address, "--topic", topic, "--messages", "1000000000")
    shown = ("--show-detailed-stats", "--reporting-interval", "1000", "--hide-header")
    told, said = list[tuple[float, int]](), list[str]()
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.write(f"client.id={client_id}\n")
        file.flush()
        with _java("ConsumerPerformance", *load, *shown, "--consumer.config", file.name) as lines:
            for line in lines:
                said.append(line)
                words = line.split(", ")
                if len(words) < 6:
                    continue
                now = datetime.strptime(words[0], "%Y-%m-%d %H:%M:%S:%f").timestamp()
                told.append((now, int(words[4])))
                passed_s = now - told[0][0]
                if passed_s >= seconds:
                    return (told[-1][1] - told[0][1]) * VALUE_BYTES / passed_s
    raise AssertionError("".join(said))


PRODUCERS: tuple[Callable[[str, str, str, float], float], ...] = (
    produced_by_librdkafka,
    produced_by_java,
    produced_by_ottla,
)
CONSUMERS: tuple[Callable[[str, str, str, float], float], ...] = (
    consumed_by_librdkafka,
    consumed_by_aiokafka,
    consumed_by_java,
    consumed_by_ottla,
)

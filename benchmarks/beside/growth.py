"""What grows with the number of things, beside Kafka: topics, partitions, connections."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks import foreign
from benchmarks.beside import apache_kafka
from benchmarks.beside.ratios import table
from benchmarks.beside.replicated import wait_for_leaders
from benchmarks.beside.systems import System, running_alone
from benchmarks.frames import metadata_frame
from benchmarks.harness import RECYCLING, drive
from benchmarks.scale import CONNECTIONS, Burst, create_topics
from tests.cluster.support.load import QUIET

if TYPE_CHECKING:
    from benchmarks.harness import Subject

ROUNDS = 3
TOPICS_AT_ONCE, MANY_TOPICS = 960, 2_000
READ_PARTITIONS = (1_000, 2_000)
BURST_LIMIT_S = 20.0
RECORDS_PER_S, READ_S, WARM_UP_S = 100, 6.0, 3.0
OPTIONS = {**RECYCLING, "log.retention.check.interval.ms": "30000"}


def beside_kafka_growth() -> dict[str, float]:
    """Many topics, partitions and connections beside Apache Kafka 3.9 and 4.x (aim: 1)."""
    if not apache_kafka.is_available():
        return {}
    with running_alone(OPTIONS) as systems:
        for round_number in range(ROUNDS):
            for system in systems:
                _create_and_delete(system, f"round-{round_number}")
        for system in systems:
            # Kafka's backlog of 50 makes clients repeat their SYN for minutes: the limit ends that.
            burst = Burst(system.brokers[0], CONNECTIONS, BURST_LIMIT_S)
            answered = CONNECTIONS - burst.unanswered
            name = f"burst_of_{CONNECTIONS}_connections_answered_per_s"
            system.notes.rate(name, answered / burst.seconds)
        for count in READ_PARTITIONS:
            for system in systems:
                foreign.create_topic(system.bootstrap, f"read-{count}", partitions=count)
            for _ in range(ROUNDS):
                for system in systems:
                    _consume(system, f"read-{count}", count)
        for system in systems:
            create_topics(system.bootstrap, MANY_TOPICS, at_once=500, prefix="many")
        for _ in range(ROUNDS):
            for system in systems:
                _list_all(system)
        return table({system.name: system.notes for system in systems})


def _create_and_delete(system: System, prefix: str) -> None:
    """Topics in one request, until the answer and until each has a leader."""
    begun, before = time.monotonic(), system.cpu_seconds()
    (answered_s,) = create_topics(
        system.bootstrap, TOPICS_AT_ONCE, at_once=TOPICS_AT_ONCE, prefix=prefix
    )
    topics = [f"{prefix}-{number:06}" for number in range(TOPICS_AT_ONCE)]
    leading_s = wait_for_leaders(system, topics, begun)
    used = system.cpu_seconds() - before
    admin = AdminClient({"bootstrap.servers": system.bootstrap}, logger=QUIET)
    for deleted in admin.delete_topics(topics, operation_timeout=120).values():
        deleted.result(180)
    system.notes.cost(f"topics_{TOPICS_AT_ONCE}_answered_s", answered_s)
    system.notes.cost(f"topics_{TOPICS_AT_ONCE}_leading_s", leading_s)
    system.notes.cost(f"topics_{TOPICS_AT_ONCE}_cpu_s", used)


def _list_all(system: System) -> None:
    broker: Subject = system.brokers[0]
    load = drive(broker, metadata_frame(all_topics=True), requests=300, pipeline=1, connections=1)
    name = f"metadata_of_{MANY_TOPICS}_topics"
    system.notes.cost(f"{name}_p50_us", load.p50_us)
    system.notes.cost(f"{name}_p99_us", load.p99_us)
    system.notes.cost(f"{name}_broker_us", load.broker_us_per_request)


def _consume(system: System, topic: str, count: int) -> None:
    """100 records a second over all partitions, one consumer: delay of each record, and CPU."""
    consumer = Consumer(
        {"bootstrap.servers": system.bootstrap, "group.id": "measured"},
        logger=QUIET,
    )
    producer = Producer({"bootstrap.servers": system.bootstrap, "linger.ms": 0}, logger=QUIET)
    consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in range(count)])
    consumer.poll(3.0)
    _flow(consumer, producer, topic, count, WARM_UP_S)
    before, begun = system.cpu_seconds(), time.monotonic()
    delays = _flow(consumer, producer, topic, count, READ_S)
    used, seconds = system.cpu_seconds() - before, time.monotonic() - begun
    consumer.close()
    name = f"consumer_of_{count}_partitions"
    system.notes.cost(f"{name}_p50_ms", 1000 * statistics.median(delays))
    system.notes.cost(f"{name}_p99_ms", 1000 * statistics.quantiles(delays, n=100)[98])
    system.notes.cost(f"{name}_cpu_percent", 100 * used / seconds)


def _flow(
    consumer: Consumer, producer: Producer, topic: str, count: int, seconds: float
) -> list[float]:
    """Seconds that each record took from ``produce`` to ``poll``.

    Raises AssertionError if fewer than half of the records arrive.
    """
    begun = time.monotonic()
    sent, delays = 0, []
    while (now := time.monotonic()) - begun < seconds:
        while sent < (now - begun) * RECORDS_PER_S:
            # A prime step: neighbouring records are in distant partitions.
            producer.produce(topic, repr(time.monotonic()), partition=sent * 7919 % count)
            sent += 1
        producer.poll(0)
        message = consumer.poll(0.002)
        if message is not None and message.error() is None:
            delays.append(time.monotonic() - float(message.value()))
    producer.flush(10)
    assert len(delays) > sent / 2, f"{len(delays)} of {sent} records arrived"
    return delays

"""Three brokers each: librdkafka's producers with acks=all, and what idle partitions add."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from benchmarks import foreign
from benchmarks.beside import apache_kafka
from benchmarks.beside.ratios import table
from benchmarks.beside.systems import REPLICAS, System, running_replicated
from tests.cluster.support.load import QUIET

if TYPE_CHECKING:
    from collections.abc import Mapping

ROUNDS = 5
TOPIC, IDLE_TOPIC = "measured", "idle"
PARTITIONS, IDLE_PARTITIONS = 3, 1_000
POUR_S = 3.0
RECORD = b"x" * 1024
SINGLE_RECORDS = 300
WARM_UP_RECORDS = 50
LEAD_TIMEOUT_S = 120.0
OPTIONS = {
    "min.insync.replicas": "2",
    "log.segment.bytes": str(64 << 20),
    "log.retention.bytes": str(128 << 20),
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "0",
}
POURS = {
    "bursts": {},
    "bursts_idempotent": {"enable.idempotence": "true"},
    "batches_of_26_kb": {"batch.size": "26000"},
}


class Poured(NamedTuple):
    """What a producer that sends as fast as it can has had acknowledged."""

    bytes_per_second: float
    cpu_seconds_per_gb: float


def beside_kafka_replicated() -> dict[str, float]:
    """Three replicas and acks=all beside Apache Kafka 3.9 and 4.x (aim: 1.5)."""
    if not apache_kafka.is_available():
        return {}
    with running_replicated(OPTIONS) as systems:
        for system in systems:
            foreign.create_topic(system.bootstrap, TOPIC, partitions=PARTITIONS, replicas=REPLICAS)
        for round_number in range(-1, ROUNDS):
            for system in systems:
                _measure(system if round_number >= 0 else system.without_notes())
        for system in systems:
            system.notes.cost(f"topic_of_{IDLE_PARTITIONS}_partitions_s", _create_idle(system))
        for round_number in range(-1, ROUNDS):
            for system in systems:
                noted = system if round_number >= 0 else system.without_notes()
                _single(noted, f"single_records_beside_{IDLE_PARTITIONS}_idle_partitions")
        return table({system.name: system.notes for system in systems})


def _measure(system: System) -> None:
    for name, settings in POURS.items():
        poured = pour(system, settings)
        system.notes.rate(f"{name}_bytes_per_second", poured.bytes_per_second)
        system.notes.cost(f"{name}_cpu_seconds_per_gb", poured.cpu_seconds_per_gb)
    _single(system, "single_records")


def pour(system: System, settings: Mapping[str, str]) -> Poured:
    """Send records of 1 KiB for some seconds. Raises AssertionError if one is refused."""
    acked = 0

    def on_delivery(error: Any, _message: Any) -> None:
        nonlocal acked
        assert error is None, error
        acked += 1

    producer = _producer(system, **{"linger.ms": 5, **settings})
    before, begun = system.cpu_seconds(), time.monotonic()
    while time.monotonic() - begun < POUR_S:
        try:
            producer.produce(TOPIC, RECORD, on_delivery=on_delivery)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    assert producer.flush(60) == 0
    seconds, used = time.monotonic() - begun, system.cpu_seconds() - before
    size_bytes = acked * len(RECORD)
    return Poured(size_bytes / seconds, used / (size_bytes / 1e9))


def _single(system: System, name: str) -> None:
    """One record at a time: how long each takes, and what it costs all brokers."""
    producer = _producer(system, **{"linger.ms": 0})
    took, before = [], 0.0
    for number in range(WARM_UP_RECORDS + SINGLE_RECORDS):
        if number == WARM_UP_RECORDS:
            before = system.cpu_seconds()
        sent = time.monotonic()
        producer.produce(TOPIC, RECORD, partition=0)
        assert producer.flush(30) == 0
        took.append(time.monotonic() - sent)
    used_us = 1e6 * (system.cpu_seconds() - before)
    counted = took[WARM_UP_RECORDS:]
    system.notes.cost(f"{name}_p50_ms", 1000 * statistics.median(counted))
    system.notes.cost(f"{name}_p99_ms", 1000 * statistics.quantiles(counted, n=100)[98])
    system.notes.cost(f"{name}_cpu_us_per_record", used_us / SINGLE_RECORDS)


def _producer(system: System, **settings: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": system.bootstrap, "acks": "all", **settings}, logger=QUIET
    )


def _create_idle(system: System) -> float:
    """Seconds until each of the idle partitions has a leader."""
    begun = time.monotonic()
    foreign.create_topic(
        system.bootstrap, IDLE_TOPIC, partitions=IDLE_PARTITIONS, replicas=REPLICAS
    )
    return wait_for_leaders(system, [IDLE_TOPIC], begun)


def wait_for_leaders(system: System, topics: list[str], begun: float) -> float:
    """Seconds since ``begun`` until each partition of the topics has a leader."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap}, logger=QUIET)
    while time.monotonic() - begun < LEAD_TIMEOUT_S:
        known = admin.list_topics(timeout=30).topics
        if all(
            topic in known
            and known[topic].partitions
            and all(one.leader >= 0 for one in known[topic].partitions.values())
            for topic in topics
        ):
            return time.monotonic() - begun
        time.sleep(0.01)
    raise AssertionError(f"{system.name}: not all partitions have a leader")

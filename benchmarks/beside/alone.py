"""One broker each: raw requests of several sizes, and librdkafka's producers."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks import foreign
from benchmarks.beside import apache_kafka
from benchmarks.beside.ratios import table
from benchmarks.beside.systems import System, running_alone
from benchmarks.frames import batch_of, fetch_frame, produce_frame
from benchmarks.harness import RECYCLING, drive

ROUNDS = 5
WARM_UP_ROUNDS = 2
MEBIBYTE = 1 << 20
LARGE_BYTES = MEBIBYTE - 2000


class Trial(NamedTuple):
    """One load: what it sends, in which shape, and which of its results count."""

    name: str
    frame: bytes
    shape: dict[str, int]
    figures: tuple[tuple[str, bool], ...]


class ProducerTrial(NamedTuple):
    """One load of librdkafka's producer."""

    name: str
    records: int
    record_bytes: int
    settings: dict[str, str]


THROUGHPUT = (("bytes_per_second", True), ("broker_seconds_per_gb", False))
REQUESTS = (("requests_per_second", True), ("broker_us_per_request", False))
ROUND_TRIPS = (("p50_us", False), ("p99_us", False))
IDEMPOTENT = {"enable.idempotence": "true"}
PRODUCERS = (
    ProducerTrial("librdkafka_100_b", 400_000, 100, {}),
    ProducerTrial("librdkafka_idempotent_100_b", 400_000, 100, IDEMPOTENT),
    ProducerTrial("librdkafka_idempotent_1_kib", 150_000, 1024, IDEMPOTENT),
)


def trials() -> list[Trial]:
    """The loads of raw requests in their order."""
    small = produce_frame("small", 0, batch_of(1, 100))
    medium = produce_frame("medium", 0, batch_of(16 << 10, 1000))
    large = produce_frame("large", 0, batch_of(LARGE_BYTES, 1000))
    read = fetch_frame("read", 0, 0, MEBIBYTE)
    return [
        Trial("produce_1m", large, _shape(512, 2, 2), THROUGHPUT),
        Trial("produce_16k", medium, _shape(24_000, 5, 4), THROUGHPUT),
        Trial("produce_one_record_pipelined", small, _shape(48_000, 8, 16), REQUESTS),
        Trial("produce_one_record_at_a_time", small, _shape(32_000, 1, 16), REQUESTS),
        Trial("acks_1_round_trip", small, _shape(5_000, 1, 1), ROUND_TRIPS),
        Trial("fetch_1m", read, _shape(2_048, 1, 4), THROUGHPUT),
    ]


def _shape(requests: int, pipeline: int, connections: int) -> dict[str, int]:
    return {"requests": requests, "pipeline": pipeline, "connections": connections}


def beside_kafka() -> dict[str, float]:
    """One broker beside Apache Kafka 3.9 and 4.x; ratios above 1 are ours (aims: 1.1 to 2)."""
    if not apache_kafka.is_available():
        return {}
    with running_alone(RECYCLING) as systems:
        for system in systems:
            system.notes.cost("idle_resident_mb", system.resident_mb())
            _prepare(system)
        for round_number in range(-WARM_UP_ROUNDS, ROUNDS):
            for system in systems:
                _measure(system if round_number >= 0 else system.without_notes())
        for system in systems:
            system.notes.cost("loaded_resident_mb", system.resident_mb())
        return table({system.name: system.notes for system in systems})


def _prepare(system: System) -> None:
    for topic in ("large", "medium", "small", "records"):
        foreign.create_topic(system.bootstrap, topic)
    foreign.create_topic(system.bootstrap, "read", retention_bytes=-1)
    filling = produce_frame("read", 0, batch_of(LARGE_BYTES, 1000))
    drive(system.brokers[0], filling, requests=32, pipeline=1, connections=4)


def _measure(system: System) -> None:
    for trial in trials():
        load = drive(system.brokers[0], trial.frame, **trial.shape)
        for figure, more_is_better in trial.figures:
            note = system.notes.rate if more_is_better else system.notes.cost
            note(f"{trial.name}_{figure}", getattr(load, figure))
    for name, count, record_bytes, settings in PRODUCERS:
        before = system.cpu_seconds()
        seconds = foreign.produce_records(
            system.bootstrap, "records", count, record_bytes, settings
        )
        used_us = 1e6 * (system.cpu_seconds() - before)
        system.notes.rate(f"{name}_records_per_second", count / seconds)
        system.notes.cost(f"{name}_broker_us_per_record", used_us / count)

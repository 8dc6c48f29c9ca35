"""The same loads by the same client against Ottla and Apache Kafka, in turn, as ratios.

A ratio above 1 means that Ottla is ahead, for every measurement: rates are divided by Kafka's,
costs and times divide them. All brokers run at the same time and are driven one after the other,
round after round, so that what disturbs one disturbs all.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import apache_kafka, foreign
from benchmarks.apache_kafka import KafkaProcess
from benchmarks.frames import batch_of, fetch_frame, metadata_frame, produce_frame
from benchmarks.harness import (
    RECYCLING,
    Load,
    cpu_seconds,
    drive,
    resident_bytes,
    worker,
)
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.harness import Subject

ROUNDS = 5
WARM_UP_ROUNDS = 2
MEBIBYTE = 1 << 20
LARGE_BYTES = MEBIBYTE - 2000
RECORDS = 500_000
OWN = "ottla"
READY_TIMEOUT_S = 60.0


class Figure(NamedTuple):
    """The name of one measured number; ``more_is_better`` decides how it becomes a ratio."""

    name: str
    more_is_better: bool


class Trial(NamedTuple):
    """One load: its topic, what it sends, and which of its results count."""

    name: str
    frame: bytes
    shape: dict[str, int]
    figures: tuple[tuple[str, bool], ...]


THROUGHPUT = (("bytes_per_second", True), ("broker_seconds_per_gb", False))
REQUESTS = (("requests_per_second", True), ("broker_us_per_request", False))
ROUND_TRIPS = (("p50_us", False), ("p99_us", False))


def trials() -> list[Trial]:
    """The loads in order; the first trial fills what the fetches read."""
    small, medium, large = batch_of(1, 100), batch_of(16 << 10, 1000), batch_of(LARGE_BYTES, 1000)
    return [
        Trial(
            "produce_1m",
            produce_frame("large", 0, large),
            {"requests": 512, "pipeline": 2, "connections": 2},
            THROUGHPUT,
        ),
        Trial(
            "produce_16k",
            produce_frame("medium", 0, medium),
            {"requests": 24_000, "pipeline": 5, "connections": 4},
            THROUGHPUT,
        ),
        Trial(
            "produce_one_record",
            produce_frame("small", 0, small),
            {"requests": 48_000, "pipeline": 32, "connections": 16},
            REQUESTS,
        ),
        Trial(
            "acks_1_round_trip",
            produce_frame("small", 0, small),
            {"requests": 5_000, "pipeline": 1, "connections": 1},
            ROUND_TRIPS,
        ),
        Trial(
            "fetch_1m",
            fetch_frame("read", 0, 0, MEBIBYTE),
            {"requests": 2_048, "pipeline": 1, "connections": 4},
            THROUGHPUT,
        ),
    ]


def seconds_until_ready(broker: Subject, started: float) -> float:
    """Seconds until the first Metadata answer that names a broker, by one clock for all
    subjects."""
    orders = {"host": "127.0.0.1", "port": broker.port, "frame": metadata_frame().hex()}
    seen = worker({**orders, "started": started, "timeout": READY_TIMEOUT_S})
    return seen["seconds"]


def running(folder: Path, stack: ExitStack) -> Iterator[tuple[str, Subject, float]]:
    """Each broker, started one after the other, with the seconds that took."""
    own_folder = folder / OWN
    own_folder.mkdir()
    own = BrokerProcess(own_folder / "data", options=RECYCLING)
    started = time.monotonic()
    own.start()
    stack.callback(own.stop)
    yield OWN, own, seconds_until_ready(own, started)
    for version in apache_kafka.VERSIONS:
        own_folder = folder / version
        own_folder.mkdir()
        kafka = KafkaProcess(version, own_folder, RECYCLING)
        kafka.format()
        started = time.monotonic()
        kafka.start()
        stack.callback(kafka.stop)
        yield f"kafka_{version}", kafka, seconds_until_ready(kafka, started)


def apache_kafka_ratios() -> dict[str, float]:
    """Apache Kafka 3.9 and 4.x under the same loads; ratios above 1 are ours (aim: all)."""
    if not apache_kafka.is_available():
        return {}
    seen: dict[str, dict[Figure, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        brokers = {}
        for name, broker, ready_seconds in running(Path(folder), stack):
            brokers[name] = broker
            seen[name] = {}
            _note(seen[name], "start_up_seconds", ready_seconds, more_is_better=False)
        time.sleep(2)
        for name, broker in brokers.items():
            resident = resident_bytes(broker.process_id) / 1e6
            _note(seen[name], "idle_resident_mb", resident, more_is_better=False)
            _prepare(broker)
        for round_number in range(-WARM_UP_ROUNDS, ROUNDS):
            for name, broker in brokers.items():
                notes = seen[name] if round_number >= 0 else {}
                _measure(broker, notes)
        for name, broker in brokers.items():
            resident = resident_bytes(broker.process_id) / 1e6
            _note(seen[name], "loaded_resident_mb", resident, more_is_better=False)
    return _table(seen)


def _prepare(broker: Subject) -> None:
    for topic in ("large", "medium", "small", "records"):
        foreign.create_topic(broker.address, topic)
    foreign.create_topic(broker.address, "read", retention_bytes=-1)
    filling = produce_frame("read", 0, batch_of(LARGE_BYTES, 1000))
    drive(broker, filling, requests=32, pipeline=1, connections=4)


def _measure(broker: Subject, notes: dict[Figure, list[float]]) -> None:
    for trial in trials():
        load: Load = drive(broker, trial.frame, **trial.shape)
        for figure, more_is_better in trial.figures:
            value = getattr(load, figure)
            _note(notes, f"{trial.name}_{figure}", value, more_is_better=more_is_better)
    before = cpu_seconds(broker.process_id)
    seconds = foreign.produce_records(broker.address, "records", RECORDS, 100)
    used = 1e6 * (cpu_seconds(broker.process_id) - before) / RECORDS
    _note(notes, "confluent_records_per_second", RECORDS / seconds, more_is_better=True)
    _note(notes, "confluent_broker_us_per_record", used, more_is_better=False)


def _note(
    notes: dict[Figure, list[float]], name: str, value: float, *, more_is_better: bool
) -> None:
    notes.setdefault(Figure(name, more_is_better), []).append(value)


def _table(seen: dict[str, dict[Figure, list[float]]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for figure, own_values in seen[OWN].items():
        own = statistics.median(own_values)
        figures[f"{figure.name} {OWN}"] = own
        for name, notes in seen.items():
            if name != OWN:
                other = statistics.median(notes[figure])
                figures[f"{figure.name} {name}"] = other
                figures[f"{figure.name} ratio to {name}"] = (
                    own / other if figure.more_is_better else other / own
                )
    return figures


COMPARISONS: dict[str, Callable[[], dict[str, float]]] = {
    "apache_kafka_ratios": apache_kafka_ratios
}

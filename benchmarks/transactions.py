"""What a transaction costs: how many a second, and how long a commit takes, by its size.

One application, one thread, one transaction at a time, as consume-transform-produce loops run; the
same client writes the same records without transactions beside it, flushing as often.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.cluster import running
from benchmarks.harness import cpu_seconds
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Figures = dict[str, float]
TOPIC = "measured"
PARTITIONS = 3
SIZES = (1, 100, 1_000)
RECORD = b"x" * 100
MEASURED_S = 4.0
WARM_UP = 20


class Rounds(NamedTuple):
    """Rounds of records, one after the other: all of them, and how long each took to be safe."""

    seconds: float
    latencies_s: list[float]
    broker_cpu_s: float

    @property
    def per_s(self) -> float:
        return len(self.latencies_s) / self.seconds

    def percentile_ms(self, percent: int) -> float:
        return statistics.quantiles(self.latencies_s, n=100)[percent - 1] * 1_000


def transactions() -> Figures:
    """Transactions a second, p50 and p99 of commit, beside plain idempotent produce."""
    figures: Figures = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data") as broker,
    ):
        create_topic(broker.address, 1)
        figures |= measured(broker.address, [broker.process_id], "")
    with running() as cluster:
        create_topic(cluster.bootstrap, 3)
        pids = [one.process_id for one in cluster.brokers.values()]
        figures |= measured(cluster.bootstrap, pids, "replicated_")
    return figures


def measured(address: str, pids: Sequence[int], prefix: str) -> Figures:
    """All sizes against one broker or cluster."""
    figures: Figures = {}
    for size in SIZES:
        plain = run_plain(address, pids, size)
        found = run_transactions(address, pids, size)
        name = f"{prefix}{size}_records"
        figures |= {
            f"{name}_transactions_per_s": found.per_s,
            f"{name}_commit_p50_ms": found.percentile_ms(50),
            f"{name}_commit_p99_ms": found.percentile_ms(99),
            f"{name}_broker_cpu_ms": found.broker_cpu_s / len(found.latencies_s) * 1_000,
            f"{name}_plain_flushes_per_s": plain.per_s,
            f"{name}_plain_p99_ms": plain.percentile_ms(99),
            f"{name}_rate_of_plain": found.per_s / plain.per_s,
        }
    return figures


def create_topic(address: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas)])[TOPIC].result(20)


def run_transactions(address: str, pids: Sequence[int], size: int) -> Rounds:
    """The latency is that of commit_transaction, which waits for the records as well."""
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 0, "transactional.id": f"measured-{size}"}
    )
    producer.init_transactions(60)

    def round_of_records() -> float:
        producer.begin_transaction()
        send(producer, size)
        begun = time.perf_counter()
        producer.commit_transaction(60)
        return time.perf_counter() - begun

    return repeat(round_of_records, pids)


def run_plain(address: str, pids: Sequence[int], size: int) -> Rounds:
    """The latency is that of flush."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "enable.idempotence": True})

    def round_of_records() -> float:
        send(producer, size)
        begun = time.perf_counter()
        assert producer.flush(60) == 0
        return time.perf_counter() - begun

    return repeat(round_of_records, pids)


def send(producer: Producer, count: int) -> None:
    for number in range(count):
        producer.produce(TOPIC, RECORD, partition=number % PARTITIONS)


def repeat(round_of_records: Callable[[], float], pids: Sequence[int]) -> Rounds:
    for _ in range(WARM_UP):
        round_of_records()
    latencies: list[float] = []
    cpu_s = sum(map(cpu_seconds, pids))
    begun = time.perf_counter()
    while time.perf_counter() - begun < MEASURED_S:
        latencies.append(round_of_records())
    seconds = time.perf_counter() - begun
    return Rounds(seconds, latencies, sum(map(cpu_seconds, pids)) - cpu_s)


TRANSACTION_MEASUREMENTS: dict[str, Callable[[], Figures]] = {"transactions": transactions}

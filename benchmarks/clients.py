"""Python clients side by side: the same loads on one broker in one run.

Each load runs in a process of its own, round after round, so that what disturbs one disturbs all;
the median round counts. Beside records per second stands the client's own processor time per
record, which other work on the machine disturbs least, and the limit: a bare socket client.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import foreign
from benchmarks.client_loads.orders import Orders
from benchmarks.harness import KEEPING, started_broker
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 2
SIZES = {"100b": 100, "1k": 1024}
# What is read: enough for the fastest, written once by the client that most of the field uses.
READ_COUNT = {100: 2_000_000, 1024: 500_000}


class Trial(NamedTuple):
    """One load: its name in the results, the function that does it, how many records of 100 bytes
    take about a second. Records of 1 KiB are a quarter as many."""

    name: str
    load: str
    records: int
    is_pure: bool = False


PRODUCE = (
    Trial("limit", "bare.produce", 3_000_000),
    Trial("ottla_records", "own.produce_records", 500_000),
    Trial("ottla_records_pure", "own.produce_records", 300_000, is_pure=True),
    Trial("ottla_batches", "own.produce_batches", 3_000_000),
    Trial("ottla_arrow", "own.produce_arrow", 3_000_000),
    Trial("confluent", "confluent.produce_records", 1_000_000),
    Trial("confluent_batches", "confluent.produce_batches", 1_000_000),
    Trial("aiokafka", "others.produce_by_aiokafka", 200_000),
    Trial("kafka_python", "others.produce_by_kafka_python", 80_000),
)
CONSUME = (
    Trial("limit", "bare.consume", 2_000_000),
    Trial("ottla_records", "own.consume_records", 1_000_000),
    Trial("ottla_records_iterated", "own.iterate_records", 1_000_000),
    Trial("ottla_records_pure", "own.consume_records", 800_000, is_pure=True),
    Trial("ottla_batches", "own.consume_batches", 2_000_000),
    Trial("ottla_arrow", "own.consume_arrow", 2_000_000),
    Trial("confluent_no_pauses", "confluent.consume_without_pauses", 2_000_000),
    Trial("confluent_defaults", "confluent.consume_with_defaults", 1_000_000),
    Trial("aiokafka", "others.consume_by_aiokafka", 600_000),
    Trial("kafka_python", "others.consume_by_kafka_python", 200_000),
)

FAST = ("limit", "ottla_batches", "ottla_arrow", "confluent_no_pauses")
FAST_ROUNDS = 5


def run_load(orders: Orders, *, is_pure: bool = False) -> dict[str, float]:
    """What one client saw. Raises RuntimeError with its last words."""
    environment = {**os.environ, "OTTLA_PURE": "1"} if is_pure else dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client_loads"],
        input=json.dumps(asdict(orders)) + "\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise RuntimeError(f"{orders.load} has failed: {done.stderr.strip()[-800:]}")
    seen: dict[str, float] = json.loads(done.stdout)
    return seen


def _measure(
    address: str, kind: str, trials: tuple[Trial, ...], size: str, rounds: int
) -> dict[str, float]:
    record_bytes = SIZES[size]
    rates: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    for _ in range(rounds):
        for trial in trials:
            count = trial.records if record_bytes <= 100 else trial.records // 4
            topic = f"read-{size}" if kind == "consume" else f"{trial.name}-{size}"
            orders = Orders(trial.load, address, topic, count, record_bytes)
            seen = run_load(orders, is_pure=trial.is_pure)
            rates.setdefault(trial.name, []).append(seen["records"] / seen["seconds"])
            costs.setdefault(trial.name, []).append(1e9 * seen["cpu_seconds"] / seen["records"])
    figures: dict[str, float] = {}
    for trial in trials:
        name = f"{kind}_{size} {trial.name}"
        figures[f"{name} records_per_second"] = statistics.median(rates[trial.name])
        figures[f"{name} cpu_ns_per_record"] = statistics.median(costs[trial.name])
    return figures


def clients(rounds: int = ROUNDS) -> dict[str, float]:
    """Our client beside confluent-kafka, aiokafka, kafka-python, and the limit of the machine."""
    figures: dict[str, float] = {}
    with started_broker(KEEPING) as broker:
        for size, record_bytes in SIZES.items():
            for trial in PRODUCE:
                foreign.create_topic(
                    broker.address, f"{trial.name}-{size}", retention_bytes=64 << 20
                )
            foreign.create_topic(broker.address, f"read-{size}", retention_bytes=-1)
            foreign.produce_records(
                broker.address, f"read-{size}", READ_COUNT[record_bytes], record_bytes
            )
            figures |= _measure(broker.address, "produce", PRODUCE, size, rounds)
            figures |= _measure(broker.address, "consume", CONSUME, size, rounds)
    return figures


def clients_reading() -> dict[str, float]:
    """The fast ways to consume beside the limit, in more rounds than there is time for all."""
    figures: dict[str, float] = {}
    trials = tuple(trial for trial in CONSUME if trial.name in FAST)
    with started_broker(KEEPING) as broker:
        for size, record_bytes in SIZES.items():
            topic = f"read-{size}"
            foreign.create_topic(broker.address, topic, retention_bytes=-1)
            foreign.produce_records(broker.address, topic, READ_COUNT[record_bytes], record_bytes)
            figures |= _measure(broker.address, "consume", trials, size, FAST_ROUNDS)
    return figures


CLIENT_MEASUREMENTS: dict[str, Callable[[], dict[str, float]]] = {
    "clients": clients,
    "clients_reading": clients_reading,
}

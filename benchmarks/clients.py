"""Python clients side by side: the same loads on one broker in one run.

Each load runs in a separate process, round after round, so that what disturbs one disturbs all; the
median round counts. Beside records per second it reports the client's own processor time per
record, which other work on the machine disturbs least, and the limit: a bare socket client. What
share of the limit a fast client reaches is looked at within each round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import foreign
from benchmarks.client_loads.orders import Orders
from benchmarks.harness import KEEPING, RECYCLING, started_broker
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 7
SLOW_ROUNDS = 2
SIZES = {"100b": 100, "1k": 1024}
# What is read: enough for the fastest, written once by the client that most of the field uses.
READ_COUNT = {100: 10_000_000, 1024: 2_000_000}
LIMIT = "limit"


class Trial(NamedTuple):
    """One load: its name in the results, the function that does it, how many records of 100 bytes
    and of 1 KiB take it about a second; no fewer, or starting would be what is measured. Slow ones
    are not measured in every round."""

    name: str
    load: str
    small: int
    large: int
    is_fast: bool = False
    is_pure: bool = False


PRODUCE = (
    Trial(LIMIT, "bare.produce", 20_000_000, 2_000_000, is_fast=True),
    Trial("ottla_batches", "own.produce_batches", 10_000_000, 2_000_000, is_fast=True),
    Trial("ottla_arrow", "own.produce_arrow", 10_000_000, 2_000_000, is_fast=True),
    Trial("ottla_records", "own.produce_records", 1_000_000, 300_000),
    Trial("ottla_records_pure", "own.produce_records", 600_000, 200_000, is_pure=True),
    Trial("confluent", "confluent.produce_records", 1_000_000, 300_000),
    Trial("confluent_batches", "confluent.produce_batches", 1_000_000, 300_000),
    Trial("aiokafka", "others.produce_by_aiokafka", 200_000, 50_000),
    Trial("kafka_python", "others.produce_by_kafka_python", 80_000, 20_000),
)
CONSUME = (
    Trial(LIMIT, "bare.consume", 10_000_000, 2_000_000, is_fast=True),
    Trial("ottla_batches", "own.consume_batches", 10_000_000, 2_000_000, is_fast=True),
    Trial("ottla_arrow", "own.consume_arrow", 10_000_000, 2_000_000, is_fast=True),
    Trial("ottla_records", "own.consume_records", 5_000_000, 1_000_000),
    Trial("ottla_records_iterated", "own.iterate_records", 2_000_000, 500_000),
    Trial("ottla_records_pure", "own.consume_records", 800_000, 400_000, is_pure=True),
    Trial("confluent_no_pauses", "confluent.consume_without_pauses", 2_000_000, 500_000),
    Trial("confluent_defaults", "confluent.consume_with_defaults", 1_000_000, 250_000),
    Trial("aiokafka", "others.consume_by_aiokafka", 600_000, 150_000),
    Trial("kafka_python", "others.consume_by_kafka_python", 200_000, 50_000),
)


def run_load(orders: Orders, *, is_pure: bool = False) -> dict[str, float]:
    """Results of one client. Raises RuntimeError with its last output."""
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


class Runs:
    """Results of all rounds of one kind and size, by the name of the trial."""

    def __init__(self, kind: str, size: str) -> None:
        self._title = f"{kind}_{size}"
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._costs: dict[str, list[float]] = defaultdict(list)
        self._shares: dict[str, list[float]] = defaultdict(list)

    def add(self, trial: Trial, seen: dict[str, float]) -> None:
        """The limit comes first in each round."""
        self._rates[trial.name].append(seen["records"] / seen["seconds"])
        self._costs[trial.name].append(1e9 * seen["cpu_seconds"] / seen["records"])
        if trial.is_fast and trial.name != LIMIT:
            share = self._rates[trial.name][-1] / self._rates[LIMIT][-1]
            self._shares[trial.name].append(share)

    def figures(self) -> dict[str, float]:
        """Medians."""
        shown = {
            "records_per_second": self._rates,
            "cpu_ns_per_record": self._costs,
            "share_of_the_limit": self._shares,
        }
        return {
            f"{self._title} {name} {what}": statistics.median(values[name])
            for name in self._rates
            for what, values in shown.items()
            if values[name]
        }


def _measure(address: str, kind: str, trials: tuple[Trial, ...], size: str) -> dict[str, float]:
    runs = Runs(kind, size)
    for number in range(ROUNDS):
        for trial in trials:
            if number >= SLOW_ROUNDS and not trial.is_fast:
                continue
            record_bytes = SIZES[size]
            count = trial.small if record_bytes <= 100 else trial.large
            topic = f"read-{size}" if kind == "consume" else f"{trial.name}-{size}"
            orders = Orders(trial.load, address, topic, count, record_bytes)
            runs.add(trial, run_load(orders, is_pure=trial.is_pure))
    return runs.figures()


def clients() -> dict[str, float]:
    """Our client beside confluent-kafka, aiokafka, kafka-python, and the limit of the machine."""
    figures: dict[str, float] = {}
    for size, record_bytes in SIZES.items():
        # A log that only grows would measure how fast the machine hands out memory.
        with started_broker(RECYCLING) as broker:
            for trial in PRODUCE:
                foreign.create_topic(broker.address, f"{trial.name}-{size}")
            figures |= _measure(broker.address, "produce", PRODUCE, size)
        with started_broker(KEEPING) as broker:
            topic, count = f"read-{size}", READ_COUNT[record_bytes]
            foreign.create_topic(broker.address, topic)
            foreign.produce_records(broker.address, topic, count, record_bytes)
            figures |= _measure(broker.address, "consume", CONSUME, size)
    return figures


CLIENT_MEASUREMENTS: dict[str, Callable[[], dict[str, float]]] = {"clients": clients}

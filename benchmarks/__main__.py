"""``make bench``: runs every measurement and keeps it in benchmarks/results/.

``python -m benchmarks NAME…`` runs some of them. Each prints its figure, the aim and the limit
that the same machine gave in the same run.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import foreign, limits
from benchmarks.frames import batch_of, fetch_frame, produce_frame
from benchmarks.harness import (
    cpu_seconds,
    drive,
    resident_bytes,
    start_up_seconds,
    started_broker,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).with_name("results")
GIGABYTE = 1e9
Figures = dict[str, float]


def start_up() -> Figures:
    """Time from the command to ready (aim 0.3 s) and idle resident memory (aim 60 MB)."""
    runs = [start_up_seconds() for _ in range(7)]
    return {
        "ready_seconds": statistics.median(seconds for seconds, _ in runs),
        "idle_resident_mb": statistics.median(resident for _, resident in runs) / 1e6,
    }


def small_requests() -> Figures:
    """Produce requests with one 100-byte record each (aim 60,000 a second on one core)."""
    frame = produce_frame("small", 0, batch_of(1, 100))
    with_pipeline, single = [], []
    with started_broker() as broker:
        foreign.create_topic(broker.address, "small")
        for _ in range(5):
            with_pipeline.append(
                drive(broker, frame, requests=160_000, pipeline=16, connections=16)
            )
            single.append(drive(broker, frame, requests=32_000, pipeline=1, connections=16))
    return {
        "pipelined_requests_per_second": statistics.median(
            load.requests_per_second for load in with_pipeline
        ),
        "pipelined_requests_per_core_second": statistics.median(
            load.requests_per_core_second for load in with_pipeline
        ),
        "pipelined_broker_us": statistics.median(
            load.broker_us_per_request for load in with_pipeline
        ),
        "single_requests_per_core_second": statistics.median(
            load.requests_per_core_second for load in single
        ),
        "single_broker_us": statistics.median(load.broker_us_per_request for load in single),
    }


def _produce_bytes(size: int, pipeline: int, connections: int) -> Figures:
    frame = produce_frame("large", 0, batch_of(size, 1000))
    with started_broker() as broker:
        foreign.create_topic(broker.address, "large")
        loads = [
            drive(
                broker,
                frame,
                requests=(2 << 30) // size,
                pipeline=pipeline,
                connections=connections,
            )
            for _ in range(5)
        ]
    rate = statistics.median(load.sent_bytes / load.seconds for load in loads)
    core = statistics.median(load.sent_bytes / load.broker_cpu_seconds for load in loads)
    limit = limits.append_bytes_per_second(size, 2 << 30)
    return {
        "gb_per_second": rate / GIGABYTE,
        "gb_per_core_second": core / GIGABYTE,
        "append_limit_gb_per_second": limit / GIGABYTE,
    }


def produce_16k() -> Figures:
    """16 KiB batches (aim 1.0 GB/s), beside plain appends of that size."""
    return _produce_bytes(16 << 10, 5, 4)


def produce_1m() -> Figures:
    """1 MiB batches (aim 2.0 GB/s), beside plain appends of that size."""
    return _produce_bytes((1 << 20) - 2000, 2, 2)


def fetch_1m() -> Figures:
    """Fetches of 1 MiB over 4 connections (aim 80 % of raw sendfile)."""
    size = 1 << 20
    rates, cores = [], []
    with started_broker(**{"log.retention.bytes": "-1"}) as broker:
        foreign.create_topic(broker.address, "read")
        frame = produce_frame("read", 0, batch_of(size - 2000, 1000))
        drive(broker, frame, requests=32, pipeline=1, connections=1)
        for _ in range(5):
            load = drive(
                broker,
                fetch_frame("read", 0, 0, size),
                requests=4096,
                pipeline=1,
                connections=4,
            )
            rates.append(load.reply_bytes / load.seconds)
            cores.append(load.reply_bytes / load.broker_cpu_seconds)
    limit = limits.sendfile_bytes_per_second(size, 4 << 30)
    rate = statistics.median(rates)
    return {
        "gb_per_second": rate / GIGABYTE,
        "gb_per_core_second": statistics.median(cores) / GIGABYTE,
        "raw_sendfile_gb_per_second": limit / GIGABYTE,
        "share_of_raw_sendfile": rate / limit,
    }


def confluent() -> Figures:
    """confluent-kafka with 100-byte records (aim 0.1 microseconds of broker time a record)."""
    rates, costs = [], []
    with started_broker() as broker:
        foreign.create_topic(broker.address, "records")
        for _ in range(3):
            before = cpu_seconds(broker.process_id)
            seconds = foreign.produce_records(broker.address, "records", 1_000_000, 100)
            rates.append(1_000_000 / seconds)
            costs.append(cpu_seconds(broker.process_id) - before)
    return {
        "records_per_second": statistics.median(rates),
        "broker_us_per_record": statistics.median(costs),
    }


def flat_memory() -> Figures:
    """Resident memory while 5 GB pass through: the slope after the first gigabyte."""
    size = (1 << 20) - 2000
    frame = produce_frame("flow", 0, batch_of(size, 1000))
    sizes = []
    with started_broker() as broker:
        foreign.create_topic(broker.address, "flow")
        for _ in range(6):
            drive(broker, frame, requests=1000, pipeline=2, connections=4)
            sizes.append(resident_bytes(broker.process_id) / 1e6)
    return {
        "after_1_gb_mb": sizes[1],
        "after_6_gb_mb": sizes[-1],
        "growth_mb": sizes[-1] - sizes[1],
    }


MEASUREMENTS: dict[str, Callable[[], Figures]] = {
    measure.__name__: measure
    for measure in (
        start_up,
        small_requests,
        produce_16k,
        produce_1m,
        fetch_1m,
        confluent,
        flat_memory,
    )
}


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def main(names: list[str]) -> None:
    """Run the named measurements, or all."""
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
    for name in names or MEASUREMENTS:
        measure = MEASUREMENTS[name]
        figures = measure()
        sys.stdout.write(f"{name}: {(measure.__doc__ or '').splitlines()[0]}\n")
        for key, value in figures.items():
            sys.stdout.write(f"    {key:40} {value:14,.3f}\n")
        sys.stdout.flush()
        document = {
            "figures": figures,
            "commit": _commit(),
            "machine": machine,
            "python": platform.python_version(),
        }
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Measurements of the broker alone, each with its target and its limit from the same run."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks import foreign, limits
from benchmarks.frames import batch_of, fetch_frame, produce_frame
from benchmarks.harness import (
    KEEPING,
    RECYCLING,
    Load,
    cpu_seconds,
    drive,
    resident_bytes,
    start_up_seconds,
    started_broker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GIGABYTE = 1e9
MEBIBYTE = 1 << 20
# A batch of this size and its request fit the clients' default limit of 1 MiB.
LARGE_BYTES = MEBIBYTE - 2000
RUNS = 5
Figures = dict[str, float]


def median(loads: Iterable[Load], figure: str) -> float:
    values: list[float] = [getattr(load, figure) for load in loads]
    return statistics.median(values)


def start_up() -> Figures:
    """Time from the command to ready (aim 0.3 s) and idle resident memory (aim 60 MB)."""
    start_up_seconds()
    runs = [start_up_seconds() for _ in range(9)]
    return {
        "ready_seconds": statistics.median(run[0] for run in runs),
        "best_ready_seconds": min(run[0] for run in runs),
        "ready_cpu_seconds": statistics.median(run[1] for run in runs),
        "idle_resident_mb": statistics.median(run[2] for run in runs) / 1e6,
    }


def small_requests() -> Figures:
    """Produce requests with one 100-byte record each (aim 60,000 a second on one core)."""
    frame = produce_frame("small", 0, batch_of(1, 100))
    deep = {"requests": 160_000, "pipeline": 32, "connections": 16}
    pipelined, single, alone = [], [], []
    with started_broker() as broker:
        foreign.create_topic(broker.address, "small")
        for _ in range(RUNS):
            pipelined.append(drive(broker, frame, **deep))
            single.append(drive(broker, frame, requests=32_000, pipeline=1, connections=16))
            alone.append(drive(broker, frame, requests=8_000, pipeline=1, connections=1))
    least = limits.bare("append", frame, **deep)
    return {
        "requests_per_second": median(pipelined, "requests_per_second"),
        "requests_per_core_second": median(pipelined, "requests_per_core_second"),
        "broker_us": median(pipelined, "broker_us_per_request"),
        "limit_of_a_bare_loop_us": least.broker_us_per_request,
        "unpipelined_requests_per_second": median(single, "requests_per_second"),
        "unpipelined_broker_us": median(single, "broker_us_per_request"),
        "round_trip_p50_us": median(alone, "p50_us"),
        "round_trip_p99_us": median(alone, "p99_us"),
    }


def _produced(size_bytes: int, *, pipeline: int, connections: int) -> Figures:
    frame = produce_frame("large", 0, batch_of(size_bytes, 1000))
    shape = {
        "requests": (2 << 30) // size_bytes,
        "pipeline": pipeline,
        "connections": connections,
    }
    with started_broker() as broker:
        foreign.create_topic(broker.address, "large")
        drive(broker, frame, **{**shape, "requests": shape["requests"] // 8})
        loads = [drive(broker, frame, **shape) for _ in range(RUNS)]
    least = limits.bare("append", frame, **shape)
    return {
        "gb_per_second": median(loads, "bytes_per_second") / GIGABYTE,
        "gb_per_core_second": median(loads, "bytes_per_core_second") / GIGABYTE,
        "broker_us": median(loads, "broker_us_per_request"),
        "limit_of_a_bare_loop_gb_per_core_second": least.bytes_per_core_second / GIGABYTE,
        "limit_of_appending_gb_per_core_second": limits.append_bytes_per_second(size_bytes, 2 << 30)
        / GIGABYTE,
    }


def produce_16k() -> Figures:
    """16 KiB batches (aim 1.0 GB/s), beside plain appends of that size."""
    return _produced(16 << 10, pipeline=5, connections=4)


def produce_1m() -> Figures:
    """1 MiB batches (aim 2.0 GB/s), beside plain appends of that size."""
    return _produced(LARGE_BYTES, pipeline=2, connections=2)


def fetch_1m() -> Figures:
    """Fetches of 1 MiB over 4 connections (aim 80 % of raw sendfile)."""
    ask = fetch_frame("read", 0, 0, MEBIBYTE)
    shape = {"requests": 4096, "pipeline": 1, "connections": 4}
    with started_broker(KEEPING) as broker:
        foreign.create_topic(broker.address, "read")
        frame = produce_frame("read", 0, batch_of(LARGE_BYTES, 1000))
        drive(broker, frame, requests=32, pipeline=1, connections=4)
        loads = [drive(broker, ask, **shape) for _ in range(RUNS)]
    raw = limits.bare("sendfile", ask, size_bytes=LARGE_BYTES, runs=RUNS, **shape)
    rate = median(loads, "bytes_per_second")
    core = median(loads, "bytes_per_core_second")
    return {
        "gb_per_second": rate / GIGABYTE,
        "gb_per_core_second": core / GIGABYTE,
        "raw_sendfile_gb_per_second": raw.bytes_per_second / GIGABYTE,
        "raw_sendfile_gb_per_core_second": raw.bytes_per_core_second / GIGABYTE,
        "share_of_raw_sendfile": rate / raw.bytes_per_second,
        "share_of_raw_sendfile_per_core_second": core / raw.bytes_per_core_second,
    }


def small_fetches() -> Figures:
    """Fetches of one small batch each: what a consumer at the end of its log costs."""
    with started_broker(KEEPING) as broker:
        foreign.create_topic(broker.address, "read")
        frame = produce_frame("read", 0, batch_of(1, 100))
        drive(broker, frame, requests=1_000, pipeline=10, connections=1)
        ask = fetch_frame("read", 0, 999, MEBIBYTE)
        loads = [
            drive(broker, ask, requests=80_000, pipeline=16, connections=16) for _ in range(RUNS)
        ]
    return {
        "requests_per_second": median(loads, "requests_per_second"),
        "broker_us": median(loads, "broker_us_per_request"),
    }


def confluent() -> Figures:
    """confluent-kafka with 100-byte records (aim 0.1 microseconds of broker time a record)."""
    rates, costs = [], []
    count = 1_000_000
    with started_broker() as broker:
        foreign.create_topic(broker.address, "records")
        for _ in range(RUNS):
            before = cpu_seconds(broker.process_id)
            seconds = foreign.produce_records(broker.address, "records", count, 100)
            rates.append(count / seconds)
            costs.append(1e6 * (cpu_seconds(broker.process_id) - before) / count)
    return {
        "records_per_second": statistics.median(rates),
        "broker_us_per_record": statistics.median(costs),
    }


def flat_memory() -> Figures:
    """Resident memory while 5 GB pass through: what is added after the first gigabyte."""
    frame = produce_frame("flow", 0, batch_of(LARGE_BYTES, 1000))
    sizes = []
    with started_broker(RECYCLING) as broker:
        foreign.create_topic(broker.address, "flow")
        for _ in range(6):
            drive(broker, frame, requests=1000, pipeline=2, connections=4)
            sizes.append(resident_bytes(broker.process_id) / 1e6)
    return {
        "after_1_gb_mb": sizes[0],
        "after_6_gb_mb": sizes[-1],
        "growth_mb": sizes[-1] - sizes[0],
    }


MEASUREMENTS: dict[str, Callable[[], Figures]] = {
    measure.__name__: measure
    for measure in (
        start_up,
        small_requests,
        produce_16k,
        produce_1m,
        fetch_1m,
        small_fetches,
        confluent,
        flat_memory,
    )
}

"""Append: what an append costs does not depend on the size of the log.

    python -m examples.why.append [--quick]

One broker, one partition. Between the measurements the log is filled in large steps. At each size
small records are produced one at a time; the program prints their latency, the processor time that
the broker spent on each, and how many reads and writes of files it made for each.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.frames import batch_of, produce_frame
from benchmarks.harness import drive
from examples.why.measuring import BATCH_BYTES, MEBIBYTE, TOPIC, broker, traffic
from examples.why.picture import Line, line_chart
from examples.why.showing import Shown, run, table

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess

KEEPING = {"log.segment.bytes": str(64 * MEBIBYTE), "log.retention.bytes": "-1"}
ROUNDS = 5


class Cost(NamedTuple):
    """Of one append at one size of the log: the best of some rounds."""

    log_mb: float
    p50_us: float
    cpu_us: float
    reads: float
    writes: float


def measure(quick: bool) -> list[Cost]:
    """At sizes that double, or nearly so."""
    steps_mb = (0, 16, 48, 192) if quick else (0, 64, 192, 256, 512, 1_024)
    requests = 200 if quick else 2_000
    filling = produce_frame(TOPIC, 0, batch_of(BATCH_BYTES, 1_000))
    costs: list[Cost] = []
    with broker(KEEPING) as started:
        # The first appends load code and connect.
        append_some(started, 0.0, requests)
        size_mb = 0.0
        for step_mb in steps_mb:
            if step_mb:
                drive(started, filling, requests=step_mb, pipeline=2, connections=2)
                size_mb += step_mb * BATCH_BYTES / 1e6
            costs.append(append_some(started, size_mb, requests))
    return costs


def append_some(started: BrokerProcess, size_mb: float, requests: int) -> Cost:
    """Produce one small record at a time; the least of each figure over the rounds."""
    frame = produce_frame(TOPIC, 0, batch_of(1, 100))
    rounds = []
    for _ in range(ROUNDS):
        before = traffic(started.process_id)
        load = drive(started, frame, requests=requests, pipeline=1, connections=1)
        used = traffic(started.process_id).since(before)
        rounds.append(
            (
                load.p50_us,
                load.broker_us_per_request,
                used.read_calls / requests,
                used.write_calls / requests,
            )
        )
    return Cost(size_mb, *(min(column) for column in zip(*rounds, strict=True)))


def show(costs: list[Cost]) -> Shown:
    """A row for each size, and both times against it."""
    rows = [
        (
            f"{one.log_mb:,.0f} MB",
            f"{one.p50_us:,.0f} us",
            f"{one.cpu_us:,.0f} us",
            f"{one.reads:.2f}",
            f"{one.writes:.2f}",
        )
        for one in costs
    ]
    lines = [
        Line("latency p50", [(one.log_mb, one.p50_us) for one in costs]),
        Line("processor time of the broker", [(one.log_mb, one.cpu_us) for one in costs]),
    ]
    first, last = costs[0], costs[-1]
    return Shown(
        table(["log", "latency p50", "processor time", "file reads", "file writes"], rows),
        line_chart("One append against the size of the log", lines, "MB in the log", "us"),
        holds=abs(last.writes - first.writes) < 0.5
        and abs(last.reads - first.reads) < 0.5
        and last.cpu_us < 3 * first.cpu_us,
    )


if __name__ == "__main__":
    sys.exit(run("append", measure, show))

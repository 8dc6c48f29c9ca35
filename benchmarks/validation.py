"""``python -m benchmarks validation``: what it costs to check records before they are acknowledged.

Two topics of one broker in turns, one with ``ottla.validate.records=full`` and one with header, and
the median over pairs of neighbours: a machine that is busy meets both. It also measures the check
alone, in this process, which shows differences of one per cent that loads cannot.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from benchmarks import foreign
from benchmarks.frames import batch_of, produce_frame
from benchmarks.harness import RECYCLING, drive, started_broker
from benchmarks.measurements import LARGE_BYTES
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.survey import survey_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAIRS = 7
CHECKS = 400
# Of the batch and of its records, and how it is sent.
SHAPES: dict[str, tuple[int, int, int, int]] = {
    "16k_of_100b": (16 << 10, 100, 5, 4),
    "16k_of_1k": (16 << 10, 1000, 5, 4),
    "1m_of_100b": (LARGE_BYTES, 100, 2, 2),
    "1m_of_1k": (LARGE_BYTES, 1000, 2, 2),
}
MODES = ("full", "header")


def _check_us(records: bytes) -> float:
    batch = parse_batch(records)
    payload, count = batch.payload, batch.record_count
    samples = []
    for _ in range(CHECKS):
        started = time.perf_counter()
        found = survey_records(payload, 0, 0, count, batch.base_timestamp)
        samples.append(time.perf_counter() - started)
        assert found[0] == count
    return 1e6 * statistics.median(samples)


def validation() -> Mapping[str, float]:
    """Checking as a share of a produce, by size of batch and record (aim below 0.03)."""
    figures = {}
    with started_broker(RECYCLING) as broker:
        for mode in MODES:
            settings = {"ottla.validate.records": mode}
            foreign.create_topic(broker.address, mode, settings=settings)
        for name, (size_bytes, record_bytes, pipeline, connections) in SHAPES.items():
            records = batch_of(size_bytes, record_bytes)
            shape = {
                "requests": (1 << 29) // size_bytes,
                "pipeline": pipeline,
                "connections": connections,
            }
            costs: dict[str, list[float]] = {mode: [] for mode in MODES}
            for turn in range(PAIRS + 1):
                for mode in MODES if turn % 2 else reversed(MODES):
                    load = drive(broker, produce_frame(mode, 0, records), **shape)
                    # The first pair warms up.
                    if turn:
                        costs[mode].append(load.broker_us_per_request)
            pairs = zip(costs["full"], costs["header"], strict=True)
            header_us = statistics.median(costs["header"])
            check_us = _check_us(records)
            figures[f"{name}_header_us"] = header_us
            figures[f"{name}_check_us"] = check_us
            figures[f"{name}_check_share"] = check_us / header_us
            figures[f"{name}_paired_share"] = statistics.median(
                full / header - 1 for full, header in pairs
            )
    return figures


VALIDATION_MEASUREMENTS: dict[str, Callable[[], Mapping[str, float]]] = {"validation": validation}

"""One broker process against two of ``ottla start --processes`` on this machine.

Two load generators run at a time in both cases, each with a partition of its own. On a machine with
two cores they share them with the brokers: the rates say less than they would on a larger one, and
the CPU time of a request says what the second process costs.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.frames import batch_of, produce_frame
from benchmarks.harness import RECYCLING, cpu_seconds, resident_bytes, worker
from tests.cluster.support.machine import MachineProcess, ottla

if TYPE_CHECKING:
    from collections.abc import Callable

Figures = dict[str, float]
TOPIC = "spread"
RUNS = 5
# Requests of each load generator.
SHAPES = {
    "pipelined": (100, {"requests": 60_000, "pipeline": 8, "connections": 8}),
    "single": (100, {"requests": 16_000, "pipeline": 1, "connections": 8}),
    "16k": (16 << 10, {"requests": 24_000, "pipeline": 5, "connections": 4}),
}


class MeasuredMachine:
    """Brokers, their processes, and the port of each partition's leader."""

    def __init__(self, folder: Path, count: int) -> None:
        self.machine = MachineProcess(folder, count, RECYCLING)

    def begin(self) -> None:
        """Start, with a topic of two partitions."""
        machine = self.machine.start()
        machine.create_topic(TOPIC, 2, 1)
        addresses = {one["broker"]: one["address"] for one in machine.described()["brokers"]}
        told = json.loads(
            ottla("topics", "describe", TOPIC, "-b", machine.bootstrap, "--format", "json")
        )
        self.ports = [
            int(addresses[part["leader"]].rpartition(":")[2]) for part in told[0]["partitions"]
        ]
        self.process_ids = machine.children() or [machine.process_id]

    def cpu(self) -> float:
        """Of all brokers, so far."""
        return sum(map(cpu_seconds, self.process_ids))

    def run(self, size_bytes: int, shape: dict[str, int]) -> tuple[float, float, float]:
        """Requests per second, microseconds of the brokers for each, cores that they used."""
        batch = batch_of(max(1, size_bytes // 1000), min(size_bytes, 1000))
        orders: list[dict[str, Any]] = [
            {
                "host": "127.0.0.1",
                "port": port,
                "frame": produce_frame(TOPIC, partition, batch).hex(),
                **shape,
            }
            for partition, port in enumerate(self.ports)
        ]
        before = self.cpu()
        with ThreadPoolExecutor(len(orders)) as pool:
            seen = list(pool.map(worker, orders))
        used = self.cpu() - before
        count = sum(one["requests"] for one in seen)
        seconds = max(one["seconds"] for one in seen)
        return count / seconds, 1e6 * used / count, used / seconds


def processes() -> Figures:
    """One and two broker processes, interleaved, two load generators on the same cores."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        machines = {count: MeasuredMachine(Path(name) / str(count), count) for count in (1, 2)}
        for one in machines.values():
            one.begin()
            stack.callback(one.machine.stop)
        for what, (size_bytes, shape) in SHAPES.items():
            runs: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
            for _ in range(RUNS):
                for count, one in machines.items():
                    runs[count].append(one.run(size_bytes, shape))
            for count, found in runs.items():
                rates, costs, cores = zip(*found, strict=True)
                figures[f"{what}_requests_per_second_{count}"] = statistics.median(rates)
                figures[f"{what}_broker_us_{count}"] = statistics.median(costs)
                figures[f"{what}_broker_cores_{count}"] = statistics.median(cores)
            ratios = [two[0] / one[0] for one, two in zip(runs[1], runs[2], strict=True)]
            figures[f"{what}_ratio"] = statistics.median(ratios)
            figures[f"{what}_ratio_least"] = min(ratios)
            figures[f"{what}_ratio_most"] = max(ratios)
        two = machines[2]
        figures["resident_mb_of_one"] = resident_bytes(machines[1].process_ids[0]) / 1e6
        figures["resident_mb_of_two"] = sum(map(resident_bytes, two.process_ids)) / 1e6
        figures["resident_mb_of_their_supervisor"] = resident_bytes(two.machine.process_id) / 1e6
    return figures


PROCESS_MEASUREMENTS: dict[str, Callable[[], Figures]] = {"processes": processes}

"""All kinds of clients at once for a long time: delays and memory of the brokers stay flat.

``MIXED_LOAD_MINUTES`` sets the duration (default 30). The rate follows the CPU time of the brokers,
which together use 70 % of a core.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from benchmarks.harness import cpu_seconds, resident_bytes
from tests.cluster.support.mixed_load import CONSUMERS, OTHER_TOPIC, PRODUCERS, TOPIC
from tests.cluster.support.real import RealCluster
from tests.support.broker_process import ROOT
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MINUTES = float(os.environ.get("MIXED_LOAD_MINUTES", "30"))
WANTED_CORES = 0.7
FIRST_RATE, STEP_S = 500.0, 10.0
# Clients are written in Python and share the machine: above that they would be the limit.
HIGHEST_RATE = 5_000.0
OPTIONS = {
    "zookeeper.session.timeout.ms": "18000",
    "log.segment.bytes": str(16 << 20),
    "log.retention.bytes": str(64 << 20),
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
}


class Worker:
    """One client in a process of its own."""

    def __init__(self, kind: str, bootstrap: str, folder: Path) -> None:
        self.kind = kind
        self._errors = folder / f"{kind}.stderr"
        self.moved = 0
        self._took_ms: list[float] = []
        self._lock = threading.Lock()
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.support.mixed_load", kind, bootstrap],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                seen = json.loads(line)
                with self._lock:
                    self.moved = seen["moved"]
                    self._took_ms += seen["took_ms"]

    def set_rate(self, rate: float) -> None:
        """Records per second from now on. Fails if the client has ended."""
        assert self._process.poll() is None, self._end()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rate}\n")
        self._process.stdin.flush()

    def taken(self) -> list[float]:
        """Milliseconds of each request since the last call."""
        with self._lock:
            taken, self._took_ms = self._took_ms, []
        return taken

    def _end(self) -> str:
        return f"{self.kind} has ended: {self._errors.read_text()[-3000:]}"

    def stop(self) -> str:
        """End it; an error that it ended with, or an empty text."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(60)
        except subprocess.TimeoutExpired:
            return f"{self.kind} does not end"
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join(10)
        return self._end() if status else ""


class Minute(NamedTuple):
    """What was seen in a step of the load."""

    rate: float
    cores: float
    p99_ms: float
    resident_mb: float


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_delays_and_memory_stay_flat_under_a_mixed_load(tmp_path: Path) -> None:
    """Clients of five kinds, groups whose members come and go, and transactions work at once."""
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(tmp_path, zookeeper.address, 3, options=OPTIONS) as cluster,
    ):
        cluster.create_topic(TOPIC, 6)
        cluster.create_topic(OTHER_TOPIC, 3)
        workers = [Worker(kind, cluster.bootstrap, tmp_path) for kind in (*PRODUCERS, *CONSUMERS)]
        try:
            seen = steps(cluster, workers)
        finally:
            errors = [error for worker in workers if (error := worker.stop())]
        for one in seen:
            print(
                f"{one.rate:8.0f} records/s, {one.cores:5.2f} cores, p99 {one.p99_ms:7.1f} ms, "
                f"{one.resident_mb:7.1f} MB"
            )
    assert not errors, errors
    idle = [worker.kind for worker in workers if not worker.moved]
    assert not idle, f"clients that moved no record: {idle}"
    judge(seen)


def steps(cluster: RealCluster, workers: Sequence[Worker]) -> list[Minute]:
    """Run the load for its time and adjust the rate to the CPU time that the brokers use."""
    pids = [broker.process_id for broker in cluster.brokers.values()]
    producers = [worker for worker in workers if worker.kind in PRODUCERS]
    rate, seen = FIRST_RATE, []
    deadline = time.monotonic() + 60 * MINUTES
    while time.monotonic() < deadline:
        for worker in producers:
            worker.set_rate(rate / len(producers))
        used, begun = sum(map(cpu_seconds, pids)), time.monotonic()
        time.sleep(STEP_S)
        cores = (sum(map(cpu_seconds, pids)) - used) / (time.monotonic() - begun)
        took = sorted(one for worker in producers for one in worker.taken())
        p99_ms = took[len(took) * 99 // 100] if took else STEP_S * 1000
        resident_mb = sum(map(resident_bytes, pids)) / 1e6
        seen.append(Minute(rate, cores, p99_ms, resident_mb))
        rate = min(HIGHEST_RATE, rate * min(1.5, max(0.7, WANTED_CORES / max(cores, 0.01))))
    return seen


def judge(seen: Sequence[Minute]) -> None:
    """Compare the second third with the last one; the first warms everything up."""
    third = len(seen) // 3
    assert third >= 2, "too short"
    middle, last = seen[third : 2 * third], seen[2 * third :]
    memory = [statistics.median(one.resident_mb for one in part) for part in (middle, last)]
    assert memory[1] <= memory[0] * 1.05 + 10, f"memory grows: {memory} MB"
    delays = [statistics.median(one.p99_ms for one in part) for part in (middle, last)]
    assert delays[1] <= delays[0] * 1.5 + 20, f"delays grow: {delays} ms"

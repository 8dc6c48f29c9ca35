"""How long a test waits for its cluster, and what a test's requests cost in it.

The first measurements count from ``import ottla`` in a new process: the cost of the first test of a
run. Its modules are compiled already, as in an installed package. The others are the cost of every
later test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

import ottla
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

Figures = dict[str, float]

RUNS = 5
RECORDS = 50_000
RECORD = b"x" * 100
FROM_IMPORT = """
import time
begun, cpu = time.perf_counter(), time.process_time()
import ottla
cluster = ottla.Cluster({brokers}, subprocess={subprocess}).start()
print(time.perf_counter() - begun, time.process_time() - cpu)
cluster.stop()
"""


def cluster_start() -> Figures:
    """Starting and stopping clusters in a test's process, best of five, in seconds."""
    with tempfile.TemporaryDirectory() as compiled:
        return _cluster_start(compiled)


def _cluster_start(compiled: str) -> Figures:
    figures: Figures = {}
    for brokers, aim in ((1, 0.3), (3, 1.0)):
        _from_import(brokers, compiled)
        runs = [_from_import(brokers, compiled) for _ in range(RUNS)]
        figures[f"from import, {brokers} brokers"] = min(wall for wall, _cpu in runs)
        figures[f"from import, {brokers} brokers, CPU"] = min(cpu for _wall, cpu in runs)
        figures[f"aim, {brokers} brokers"] = aim
        starts, topics, stops = zip(*(_once(brokers) for _ in range(RUNS)), strict=True)
        figures[f"start, {brokers} brokers"] = min(starts)
        figures[f"create a topic, {brokers} brokers"] = min(topics)
        figures[f"stop, {brokers} brokers"] = min(stops)
    figures["from import, 3 processes"] = _from_import(3, compiled, in_processes=True)[0]
    return figures


def cluster_records() -> Figures:
    """Records per second that confluent-kafka gets into a cluster of the same process."""
    figures: Figures = {}
    for brokers in (1, 3):
        with ottla.Cluster(brokers) as cluster:
            cluster.create_topic("t")
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
            begun = time.perf_counter()
            for _ in range(RECORDS):
                producer.produce("t", RECORD)
            producer.flush(60)
            figures[f"records/s, {brokers} brokers"] = RECORDS / (time.perf_counter() - begun)
    return figures


def _from_import(brokers: int, compiled: str, *, in_processes: bool = False) -> tuple[float, float]:
    """Wall clock and processor time; the folder is where compiled modules are kept."""
    code = FROM_IMPORT.format(brokers=brokers, subprocess=in_processes)
    wall, cpu = _run(code, compiled).split()
    return float(wall), float(cpu)


def _run(code: str, compiled: str) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=environment | {"PYTHONPYCACHEPREFIX": compiled},
    ).stdout


def _once(brokers: int) -> tuple[float, float, float]:
    begun = time.perf_counter()
    with ottla.Cluster(brokers) as cluster:
        started = time.perf_counter()
        cluster.create_topic("t")
        made = time.perf_counter()
    return started - begun, made - started, time.perf_counter() - made


TEST_CLUSTER_MEASUREMENTS: dict[str, Callable[[], Figures]] = {
    measure.__name__: measure for measure in (cluster_start, cluster_records)
}

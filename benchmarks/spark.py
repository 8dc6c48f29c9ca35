"""Our source for Spark beside Spark's own connector, on one broker in one run.

The connector is that of Spark 4.0.0, the last whose archives Maven's central repository has
complete, in a PySpark of that version; ours runs in the one that is installed. Without Maven only
ours is measured. The rows are discarded, so that only reading is measured.

One partition is one task: our worker (one core), the thread of the JVM that takes its rows, and the
broker work at the same time, the connector does all of it in one thread. So what more partitions
bring ends where ``cores_busy`` comes to the cores of the machine, which broker and Spark share.

A micro-batch is compared with those of the source ``rate``, which is in the JVM and sends no
requests, and of a Python source that does nothing: what is left above that is ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import foreign
from benchmarks.harness import KEEPING, started_broker
from tests.support.broker_process import ROOT
from tests.support.spark_connector import connector_jars, connector_python

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.broker_process import BrokerProcess

CORES = 2
RECORDS = 4_000_000
ROUNDS = 2
BATCHES = 20
LIMIT_S = 120
STREAM_PARTITIONS = 4


class Load(NamedTuple):
    """A topic, and by how much there are fewer records than of the others."""

    partitions: int
    record_bytes: int
    part: int = 1


FEW = "first"
LOADS = {
    FEW: Load(STREAM_PARTITIONS, 100, 400),
    "1 partition": Load(1, 100),
    "2 partitions": Load(2, 100),
    "4 partitions": Load(4, 100),
    "4 partitions of 1 KiB": Load(4, 1024, 8),
}


class Side(NamedTuple):
    """A source and the Python that it runs in."""

    source: str
    python: str = sys.executable
    jars: str = ""


def _sides() -> dict[str, Side]:
    sides = {"ottla": Side("ottla")}
    if shutil.which("mvn") is not None:
        sides["connector"] = Side("kafka", connector_python(), connector_jars())
    return sides


def _run(side: Side, broker: BrokerProcess, kind: str, topics: list[str]) -> dict[str, float]:
    """Results of the run. Raises RuntimeError with its last output."""
    orders = {
        "kind": kind,
        "topics": topics,
        "source": side.source,
        "jars": side.jars,
        "cores": CORES,
        "rounds": ROUNDS,
        "batches": BATCHES,
        "limit_s": LIMIT_S,
        "partitions": STREAM_PARTITIONS,
        "address": broker.address,
        "broker": broker.process_id,
    }
    environment = {"PYSPARK_PYTHON": side.python, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [side.python, str(ROOT / "benchmarks" / "spark_load.py"), json.dumps(orders)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{side.source} has failed: {done.stderr.strip()[-800:]}")
    seen: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seen


def spark(records: int = RECORDS) -> dict[str, float]:
    """Rows per second out of topics with more and more partitions, on two cores, with the CPU time
    of Spark and the broker; the phases of a micro-batch of ten rows, in ms."""
    figures: dict[str, float] = {}
    sides = _sides()
    with started_broker(KEEPING) as broker:
        for name, load in LOADS.items():
            topic = _topic(name)
            partitions, count = load.partitions, records // load.part
            foreign.create_topic(broker.address, topic, retention_bytes=-1, partitions=partitions)
            foreign.produce_records(broker.address, topic, count, load.record_bytes)
        for side_name, side in sides.items():
            seen = _run(side, broker, "batch", [_topic(name) for name in LOADS])
            figures[f"{side_name} first_read_seconds"] = seen["first_seconds"]
            for name, load in LOADS.items():
                if name != FEW:
                    count = records // load.part
                    figures |= _speed(f"{side_name} {name}", _topic(name), count, seen)
        streams = {**sides, "idle": Side("idle"), "rate": Side("rate")}
        for side_name, side in streams.items():
            seen = _run(side, broker, "stream", [_topic(FEW)])
            figures[f"{side_name} batch_ms"] = seen.pop("triggerExecution")
            figures |= {f"{side_name} batch_ms {phase}": ms for phase, ms in seen.items()}
    return figures


def _topic(name: str) -> str:
    return name.replace(" ", "-")


def _speed(name: str, topic: str, count: int, seen: dict[str, float]) -> dict[str, float]:
    seconds = seen[f"{topic} seconds"]
    used, served = seen[f"{topic} cpu_seconds"], seen[f"{topic} broker_cpu_seconds"]
    return {
        f"{name} rows_per_second": count / seconds,
        f"{name} cores_busy": (used + served) / seconds,
        f"{name} cpu_seconds_per_million": 1e6 * (used + served) / count,
    }


SPARK_MEASUREMENTS: dict[str, Callable[[], dict[str, float]]] = {"spark": spark}

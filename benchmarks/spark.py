"""Our source for Spark beside Spark's own connector, on one broker in one run.

The connector is that of Spark 4.0.0, the last whose archives Maven's central repository has
complete, in a PySpark of that version; ours runs in the one that is installed. Without Maven there
is ours alone. What is read goes nowhere, so that reading is all there is.
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
from tests.interop.environments import python_with
from tests.interop.test_spark import VERSION, jars
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 1_000_000
RECORD_BYTES = 100
PARTITIONS = 4
ROUNDS = 3
BATCHES = 20
LIMIT_S = 120


class Side(NamedTuple):
    """Whose source, in which Python."""

    source: str
    python: str
    jars: str = ""


def _sides() -> dict[str, Side]:
    sides = {"ottla": Side("ottla", sys.executable)}
    if shutil.which("mvn") is not None:
        python = str(python_with(f"pyspark=={VERSION}"))
        sides["connector"] = Side("kafka", python, jars())
    return sides


def _run(side: Side, address: str, topic: str, **orders: object) -> dict[str, float]:
    """What it saw. Raises RuntimeError with its last words."""
    given = {"kind": "batch", "cores": 2, "rounds": ROUNDS, "batches": BATCHES, "limit_s": LIMIT_S}
    given |= {"address": address, "topic": topic, "source": side.source, "jars": side.jars}
    environment = {"PYSPARK_PYTHON": side.python, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [side.python, str(ROOT / "benchmarks" / "spark_load.py"), json.dumps(given | orders)],
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
    """Rows per second out of a topic, and what a micro-batch of ten rows takes."""
    figures: dict[str, float] = {}
    sides = _sides()
    with started_broker({**KEEPING, "num.partitions": str(PARTITIONS)}) as broker:
        address = broker.address
        for topic in ("wide", "narrow"):
            partitions = PARTITIONS if topic == "wide" else 1
            foreign.create_topic(address, topic, retention_bytes=-1, partitions=partitions)
            foreign.produce_records(address, topic, records, RECORD_BYTES)
        for name, side in sides.items():
            seen = _run(side, address, "wide")
            figures[f"{name} rows_per_second"] = records / seen["seconds"]
            figures[f"{name} first_read_seconds"] = seen["first_seconds"]
            seen = _run(side, address, "narrow", cores=1)
            figures[f"{name} rows_per_second one_partition_one_core"] = records / seen["seconds"]
        sides["rate"] = Side("rate", sys.executable)
        for name, side in sides.items():
            figures[f"{name} batch_ms"] = _run(side, address, "wide", kind="stream")["batch_ms"]
    return figures


SPARK_MEASUREMENTS: dict[str, Callable[[], dict[str, float]]] = {"spark": spark}

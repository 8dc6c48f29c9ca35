"""One load in a separate Spark: ``python spark_load.py '{"source": "ottla", ...}'``.

Prints its results as one line of JSON. Also runs under another PySpark than ours, so it imports
nothing of ours but the data source, and that only for our own loads.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

QUICK = "-XX:+UseSerialGC"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PHASES = ("triggerExecution", "latestOffset", "queryPlanning", "addBatch")
CHECKPOINT = ("walCommit", "commitOffsets")


def session(orders: dict[str, Any]) -> SparkSession:
    """Some cores, without anything that listens elsewhere."""
    builder = SparkSession.builder.master(f"local[{orders['cores']}]")
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.jars": orders["jars"],
    }.items():
        if value:
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if orders["source"] == "ottla":
        spark.dataSource.register(importlib.import_module("ottla.client.spark").OttlaDataSource)
    if orders["source"] == "idle":
        made = importlib.import_module("spark_idle").idle_source(orders["partitions"])
        spark.dataSource.register(made)
    return spark


def cpu_seconds(processes: Iterator[int]) -> float:
    """CPU time of these processes so far."""
    ticks = 0
    for process_id in processes:
        try:
            fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks * TICK_S


def family(process_id: int) -> Iterator[int]:
    """The process, and all that it has started: the driver's JVM and the workers."""
    yield process_id
    for path in Path(f"/proc/{process_id}/task").glob("*/children"):
        for child in path.read_text().split():
            yield from family(int(child))


def batches(spark: SparkSession, orders: dict[str, Any]) -> dict[str, float]:
    """Read each topic repeatedly. The very first read includes the warm-up; of the others the
    shortest counts."""
    seen: dict[str, float] = {}
    for topic in orders["topics"]:
        frame = (
            spark.read.format(orders["source"])
            .option("kafka.bootstrap.servers", orders["address"])
            .option("subscribe", topic)
            .load()
        )
        found = [_read(frame, orders["broker"]) for _ in range(orders["rounds"])]
        if not seen:
            seen["first_seconds"] = found[0]["seconds"]
        best = min(found, key=lambda one: one["seconds"])
        seen |= {f"{topic} {name}": value for name, value in best.items()}
    return seen


def _read(frame: DataFrame, broker: int) -> dict[str, float]:
    used, served = cpu_seconds(family(os.getpid())), cpu_seconds(iter([broker]))
    began = time.perf_counter()
    # All columns, into nothing.
    frame.write.format("noop").mode("overwrite").save()
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": cpu_seconds(family(os.getpid())) - used,
        "broker_cpu_seconds": cpu_seconds(iter([broker])) - served,
    }


def stream(spark: SparkSession, orders: dict[str, Any]) -> dict[str, float]:
    """Run nearly empty micro-batches one after the other: the median of each phase, in ms, and the
    CPU time of all processes for each. What Spark itself writes to the checkpoint is listed apart.
    The first third is warm-up."""
    reader = _with_options(spark.readStream.format(orders["source"]), orders)
    cold = orders["batches"] // 3
    with tempfile.TemporaryDirectory() as folder:
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.start()
        found = _progress(query, cold, orders["limit_s"])
        warm, used = max(found), cpu_seconds(family(os.getpid()))
        found |= _progress(query, orders["batches"] - cold, orders["limit_s"], warm)
        used = cpu_seconds(family(os.getpid())) - used
        query.stop()
    late = [ms for batch, ms in found.items() if batch > warm]
    seen = {name: float(median(one.get(name, 0) for one in late)) for name in PHASES}
    seen["checkpoint"] = float(median(sum(one[name] for name in CHECKPOINT) for one in late))
    return {**seen, "cpu": 1_000 * used / (max(found) - warm)}


def _progress(
    query: StreamingQuery, count: int, limit_s: float, after: int = -1
) -> dict[int, dict[str, int]]:
    """The phases of that many micro-batches with rows behind that one. Raises TimeoutError."""
    found: dict[int, dict[str, int]] = {}
    deadline = time.monotonic() + limit_s
    while len(found) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(found)} of {count} micro-batches in {limit_s} s")
        time.sleep(0.1)
        for one in query.recentProgress:
            if one["numInputRows"] and one["batchId"] > after:
                found.setdefault(one["batchId"], one["durationMs"])
    return found


def _with_options(reader: DataStreamReader, orders: dict[str, Any]) -> DataStreamReader:
    if orders["source"] == "rate":
        tasks = str(orders["partitions"])
        return reader.option("rowsPerSecond", "100").option("numPartitions", tasks)
    if orders["source"] == "idle":
        return reader
    return (
        reader.option("kafka.bootstrap.servers", orders["address"])
        .option("subscribe", orders["topics"][0])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "10")
    )


def main() -> None:
    """Do what the argument says."""
    orders = json.loads(sys.argv[1])
    spark = session(orders)
    seen = (stream if orders["kind"] == "stream" else batches)(spark, orders)
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()

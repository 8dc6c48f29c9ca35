"""One load in a Spark of its own: ``python spark_load.py '{"source": "ottla", ...}'``.

Prints what it saw as one line of JSON. Runs under another PySpark than ours, too, so it imports
nothing of ours but the data source, and that only for its own loads.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUICK = "-XX:+UseSerialGC"


def session(orders: dict[str, Any]) -> SparkSession:
    """Two cores, without anything that listens elsewhere."""
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
    return spark


def batches(spark: SparkSession, orders: dict[str, Any]) -> dict[str, float]:
    """Read the topic again and again; the first time warms everything up."""
    frame = (
        spark.read.format(orders["source"])
        .option("kafka.bootstrap.servers", orders["address"])
        .option("subscribe", orders["topic"])
        .load()
    )
    seconds = []
    for _ in range(orders["rounds"] + 1):
        began = time.perf_counter()
        # All columns, into nothing.
        frame.write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - began)
    return {"seconds": sorted(seconds[1:])[len(seconds[1:]) // 2], "first_seconds": seconds[0]}


def stream(spark: SparkSession, orders: dict[str, Any]) -> dict[str, float]:
    """Micro-batches with next to nothing in them, one after the other."""
    reader = spark.readStream.format(orders["source"])
    if orders["source"] == "rate":
        reader = reader.option("rowsPerSecond", "100")
    else:
        reader = (
            reader.option("kafka.bootstrap.servers", orders["address"])
            .option("subscribe", orders["topic"])
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "10")
        )
    frame: DataFrame = reader.load()
    with tempfile.TemporaryDirectory() as folder:
        query = frame.writeStream.format("noop").option("checkpointLocation", folder).start()
        found: list[int] = []
        deadline = time.monotonic() + orders["limit_s"]
        seen: set[int] = set()
        while len(found) < orders["batches"] and time.monotonic() < deadline:
            time.sleep(0.5)
            for one in query.recentProgress:
                if one["numInputRows"] and one["batchId"] not in seen:
                    seen.add(one["batchId"])
                    found.append(one["durationMs"]["triggerExecution"])
        query.stop()
    late = sorted(found[len(found) // 3 :])
    return {"batch_ms": float(late[len(late) // 2]), "batches": float(len(found))}


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

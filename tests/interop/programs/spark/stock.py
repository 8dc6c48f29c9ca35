"""Spark with its own connector for Kafka, whose jars are beside it: no Ottla in this process.

    python stock.py JARS SERVERS TOPIC FOLDER STEP

Prints one line of JSON. Steps: write, read, stream (what is new, to Parquet).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

COUNT = 1_000


def session(jars: str) -> SparkSession:
    """A small one; batches read what is committed, as its streams do here."""
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "700m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def main(jars: str, servers: str, topic: str, folder: str, step: str) -> Any:
    """Run one step; return its result."""
    spark = session(jars)
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
    }
    if step == "write":
        rows = spark.range(COUNT, numPartitions=2).selectExpr(
            "cast(id as string) as key",
            "concat('value ', id) as value",
            "array(named_struct('key', 'h', 'value', x'01')) as headers",
        )
        rows.write.format("kafka").options(**options).option("topic", topic).save()
        return COUNT
    if step == "read":
        frame = spark.read.format("kafka").options(**options).load()
        found = frame.selectExpr("cast(value as string) as value", "size(headers) as headers")
        return sorted([row.value, max(0, row.headers or 0)] for row in found.collect())
    query = (
        spark.readStream.format("kafka")
        .options(**options)
        .option("maxOffsetsPerTrigger", 300)
        .load()
        .selectExpr("partition", "offset", "cast(value as string) as value")
        .writeStream.format("parquet")
        .option("path", f"{folder}/files")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.parquet(f"{folder}/files")
    return sorted(row.value for row in found.collect())


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))

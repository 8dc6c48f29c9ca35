"""A Spark program to be killed: copies a topic to another one and to Parquet, exactly once.

    python -m tests.client.spark.support.copying MASTER SERVERS FROM TO FOLDER LIMIT

It prints a line for each micro-batch, and ends when it has copied what was there at its start.
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.client.spark.support.sessions import SETTINGS, small_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 0.02
TASK_FAILURES_MAX = "20"
WORDS_MAX = 4_000


def session(master: str) -> SparkSession:
    """A small one; where tasks are killed, they may fail often."""
    settings = {**SETTINGS, "spark.task.maxFailures": TASK_FAILURES_MAX}
    made = small_session(master, settings)
    made.sparkContext.setLogLevel("OFF")
    return made


def stream(spark: SparkSession, servers: str, topic: str, limit: str) -> DataFrame:
    """Committed records, so many in a micro-batch."""
    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": limit,
    }
    return spark.readStream.format("ottla").options(**options).load()


def begin(frame: DataFrame, servers: str, target: str, folder: Path) -> list[StreamingQuery]:
    """One query for each copy."""
    to_topic = (
        frame.select("key", "value", "partition")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("checkpointLocation", str(folder / "to-topic"))
        .trigger(availableNow=True)
    )
    to_files = (
        frame.select("partition", "offset", "value")
        .writeStream.format("parquet")
        .option("path", str(folder / "parquet"))
        .option("checkpointLocation", str(folder / "to-files"))
        .trigger(availableNow=True)
    )
    return [to_topic.start(), to_files.start()]


def abridged(text: str) -> str:
    """Remove the middle of a long stack: the cause is at its two ends."""
    if len(text) <= 2 * WORDS_MAX:
        return text
    return f"{text[:WORDS_MAX]}\n[...]\n{text[-WORDS_MAX:]}"


def main(master: str, servers: str, source: str, target: str, folder: str, limit: str) -> int:
    """Returns how many queries have failed."""
    spark = session(master)
    queries = begin(stream(spark, servers, source, limit), servers, target, Path(folder))
    print("running", flush=True)
    seen = -1
    while any(query.isActive for query in queries):
        progress = queries[0].lastProgress
        if progress is not None and progress.batchId > seen:
            seen = progress.batchId
            print("batch", seen, flush=True)
        time.sleep(LOOK_S)
    failures = [error for query in queries if (error := query.exception()) is not None]
    for failure in failures:
        print("failed", abridged(str(failure)), flush=True)
    return len(failures)


def told(arguments: list[str]) -> int:
    """Run it, and report a Spark that does not start, or ends early."""
    try:
        return main(*arguments)
    except Exception:
        print("failed", abridged(traceback.format_exc()), flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(told(sys.argv[1:]))

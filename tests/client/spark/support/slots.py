"""A Spark with six slots that reads a topic, and counts its tasks.

``python -m tests.client.spark.support.slots SERVERS TOPIC FOLDER TASKS``; its last line is JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext

from tests.client.spark.support.sessions import SETTINGS, small_session
from tests.client.spark.support.topics import frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Row

SLOTS = 6
PATIENCE_S, LONGER_S = 200.0, 0.5


def noting(folder: Path, tasks: int) -> Callable[[Iterable[Row]], Iterable[tuple[int, int]]]:
    """What each task does: it waits until so many tasks run at once, and then a little longer, in
    which one more task would begin if there were one for the slots that are free."""

    def note(rows: Iterable[Row]) -> Iterable[tuple[int, int]]:
        context = TaskContext.get()
        number = -1 if context is None else context.partitionId()
        count = sum(1 for _ in rows)
        (folder / f"running-{number}").touch()
        deadline = time.monotonic() + PATIENCE_S
        while len(list(folder.glob("running-*"))) < tasks:
            if time.monotonic() > deadline:
                raise RuntimeError("fewer tasks run at once")
            time.sleep(0.02)
        time.sleep(LONGER_S)
        yield len(list(folder.glob("running-*"))), count

    return note


def main(servers: str, topic: str, folder: str, tasks: str) -> None:
    """Read the topic once."""
    spark = small_session(f"local[{SLOTS}]", SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    note = noting(Path(folder), int(tasks))
    found = frame(spark, servers, subscribe=topic).rdd.mapPartitions(note).collect()
    slots = spark.sparkContext.defaultParallelism
    spark.stop()
    print(
        json.dumps(
            {"slots": slots, "running": [one for one, _ in found], "rows": sum(n for _, n in found)}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The splits of a load: which there are, and that they are read at the same time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext
from pyspark.sql import functions as f

import ottla
from ottla.client.cli.parsers.spark import parser
from ottla.client.spark.jobs import load, session
from ottla.client.spark.jobs.load import Loads
from ottla.client.spark.jobs.manifest import Manifest
from ottla.protocol.ids import TopicPartition
from tests.client.spark.support.topics import fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

TOPICS, PARTITIONS = ("left", "right"), 2
# Spark's workers take long to start on a busy machine.
PATIENCE_S = 600.0


def noting(folder: Path) -> Callable[[bytes, str, int], bytes]:
    """A step for each row: the first row of a task waits until another task has begun; each row
    records its task and its source."""

    def note(value: bytes, topic: str, partition: int) -> bytes:
        context = TaskContext.get()
        number = -1 if context is None else context.partitionId()
        (folder / f"begun-{number}").touch()
        deadline = time.monotonic() + PATIENCE_S
        while len(list(folder.glob("begun-*"))) < 2:
            if time.monotonic() > deadline:
                raise RuntimeError("no other task has begun")
            time.sleep(0.02)
        (folder / f"seen-{number}-{topic}-{partition}").touch()
        return value

    return note


# PySpark looks at pandas, where it is installed, before it makes a function.
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.timeout(1_800)
@pytest.mark.requirement("CON-23")
def test_a_load_has_one_split_for_each_partition_and_reads_them_in_parallel(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two topics on two brokers, two partitions each: four splits, each of one partition and so of
    the one node that leads it. A task continues only when a second one is running."""
    notes, place = tmp_path / "notes", tmp_path / "lake"
    notes.mkdir()
    with ottla.Cluster(brokers=2) as cluster:
        broker = cluster.bootstrap_servers
        for topic in TOPICS:
            cluster.create_topic(topic, PARTITIONS)
            fill(broker, topic, 20, PARTITIONS)
        wanted = [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        nodes = {cluster.leader(*where) for where in wanted}
        words = ("-b", broker, "--topics", ",".join(TOPICS), "--to", str(place))
        arguments = parser().parse_args(["load", *words])
        loads = Loads(spark, str(place))
        work = load.work_of(loads.begin(), wanted, arguments)
        rows = session.read(spark, load.options_for(arguments, work.ranges))
        note = noting(notes)
        noted = rows.withColumn(
            # Spark reads type hints, where a function has any, as those of pandas.
            "value",
            f.udf(lambda *row: note(*row), "binary")("value", "topic", "partition"),
        )
        stored = loads.commit(noted, Manifest(1, work.ranges, 0, window="hour"))

    seen = [path.name.split("-")[1:] for path in notes.glob("seen-*")]
    assert sorted(where for _, *where in seen) == [[topic, str(one)] for topic, one in wanted]
    assert sorted(number for number, *_ in seen) == ["0", "1", "2", "3"]
    assert nodes == {1, 2}
    assert stored.row_count == 20 * len(wanted)

"""Spark: streams that go on where they were, and a topic made of another exactly once.

    python examples/spark/spark_streams.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints. Needs
``pip install '.[spark]'`` and Java 17 or 21.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import ottla
import ottla.sync
from ottla.client.spark import OttlaDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# %% A cluster in this process, or the one whose address is given, and two topics.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topics([ottla.NewTopic(name, 1, 1) for name in ("readings", "warnings")])


def measure(*degrees: int) -> None:
    """A thermometer says something."""
    with ottla.sync.Producer(servers) as producer:
        for one in degrees:
            producer.send("readings", str(one).encode(), key=b"cellar")


# %% A session of this machine that knows topics. Its workers are to be this Python.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(OttlaDataSource)


def readings() -> DataFrame:
    """The topic as a frame that goes on, two records at a time."""
    source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", servers)
    source = source.option("subscribe", "readings").option("startingOffsets", "earliest")
    source = source.option("kafka.isolation.level", "read_committed")
    return source.option("maxOffsetsPerTrigger", "2").option("kafka.group.id", "to-files").load()


# %% A topic into files. The checkpoint is where the query is; availableNow ends with what is there.
scratch = tempfile.TemporaryDirectory(prefix="ottla-spark-", ignore_cleanup_errors=True)
folder = Path(scratch.name)


def to_files() -> int:
    """Run the query until it has what is there now; how many micro-batches that took."""
    writer = readings().select("offset", "value").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "files-checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "files"))
    query.awaitTermination()
    return sum(1 for progress in query.recentProgress if progress.numInputRows)


measure(11, 12, 31)
print(to_files(), spark.read.parquet(str(folder / "files")).count())
# -> 2 3

# %% Started again it goes on where it was, whatever startingOffsets says.
measure(13)
print(to_files(), spark.read.parquet(str(folder / "files")).count())
# -> 1 4

# %% How far it is can be seen wherever the lag of groups can.
with ottla.sync.Admin(servers) as admin:
    print(admin.groups.offsets("to-files")[ottla.TopicPartition("readings", 0)].offset)
    # -> 4

# %% A topic into a topic: each record once, also if this is killed in the middle and run again.
warm = readings().withColumn("celsius", f.col("value").cast("string").cast("int"))
warm = warm.where("celsius > 30").selectExpr("key", "concat(celsius, ' degrees') as value")
sink = warm.writeStream.format("ottla").option("kafka.bootstrap.servers", servers)
sink = sink.option("topic", "warnings").option("checkpointLocation", str(folder / "checkpoint"))


def warn() -> list[bytes]:
    """Do what there is to do; what readers of committed records, such as this one, find then."""
    sink.trigger(availableNow=True).start().awaitTermination()
    table = ottla.read_arrow("warnings", bootstrap_servers=servers, columns=["value"])
    return [value.as_py() for value in table["value"]]


print(warn())
# -> [b'31 degrees']
measure(32, 14)
print(warn())
# -> [b'31 degrees', b'32 degrees']
spark.stop()
cluster.stop()
scratch.cleanup()

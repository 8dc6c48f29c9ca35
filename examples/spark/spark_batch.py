"""Spark: what topics hold as a frame, and a frame as records.

    python examples/spark/spark_batch.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints. Needs
``pip install '.[spark]'`` and Java 17 or 21.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import ottla
import ottla.sync
from ottla.client.spark import OttlaDataSource

# %% A cluster in this process, or the one whose address is given, and some orders.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
NOON_MS = 1_767_182_400_000
with ottla.sync.Admin(servers) as admin:
    admin.create_topics([ottla.NewTopic(name, 2, 1) for name in ("orders", "sums", "alarms")])
with ottla.sync.Producer(servers) as producer:
    for number, (who, cents) in enumerate([("ann", 300), ("bob", 1250), ("ann", 700), ("cy", 40)]):
        order = json.dumps({"customer": who, "cents": cents}).encode()
        headers = (("shop", b"north"),) if number == 0 else ()
        time_ms = NOON_MS + number * 60_000
        producer.send("orders", order, partition=number % 2, timestamp=time_ms, headers=headers)

# %% A session of this machine that knows topics. Its workers are to be this Python.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(OttlaDataSource)

# %% A topic as a frame; options and columns are those of Spark's own connector.
source = spark.read.format("ottla").option("kafka.bootstrap.servers", servers)
orders = source.option("subscribe", "orders").option("includeHeaders", "true").load()
print(orders.columns)
# -> ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType', 'headers']
row = orders.where("headers is not null").select("partition", "offset", "headers").first()
assert row is not None
print(row.partition, row.offset, row.headers[0].key, bytes(row.headers[0].value))
# -> 0 0 shop b'north'

# %% Where to begin and to end: an offset for each partition, -2 the beginning and -1 the end ...
places = {"startingOffsets": '{"orders": {"0": 1, "1": -2}}', "endingOffsets": "latest"}
some = spark.read.format("ottla").option("kafka.bootstrap.servers", servers).options(**places)
found = some.option("subscribe", "orders").load().select("partition", "offset")
print(sorted(tuple(row) for row in found.collect()))
# -> [(0, 1), (1, 0), (1, 1)]

# %% ... or a time, in ms since 1970.
late = spark.read.format("ottla").option("kafka.bootstrap.servers", servers)
late = late.option("subscribePattern", "ord.*").option("startingTimestamp", str(NOON_MS + 90_000))
print(late.load().count())
# -> 2

# %% From there on it is Spark's business.
parsed = f.from_json(f.col("value").cast("string"), "customer string, cents bigint")
sums = (
    orders.select(parsed.alias("order"))
    .groupBy("order.customer")
    .agg(f.sum("order.cents").alias("cents"))
)
print([tuple(row) for row in sums.orderBy("customer").collect()])
# -> [('ann', 1000), ('bob', 1250), ('cy', 40)]

# %% A frame as records: columns value, key and headers, and topic if rows go to several. Without
# exactlyOnce a task that is tried again writes its rows again.
records = sums.select(
    f.when(f.col("cents") < 100, "alarms").otherwise("sums").alias("topic"),
    f.col("customer").alias("key"),
    f.to_json(f.struct("cents")).alias("value"),
    f.expr("array(named_struct('key', 'by', 'value', cast('spark' as binary)))").alias("headers"),
)
target = records.write.format("ottla").option("kafka.bootstrap.servers", servers)
target.mode("append").option("exactlyOnce", "true").save()

for name in ("sums", "alarms"):
    columns = ["key", "value"]
    table = ottla.read_arrow(name, bootstrap_servers=servers, columns=columns)
    print(name, sorted(tuple(one.values()) for one in table.to_pylist()))
# -> sums [(b'ann', b'{"cents":1000}'), (b'bob', b'{"cents":1250}')]
# -> alarms [(b'cy', b'{"cents":40}')]
spark.stop()
cluster.stop()

"""Tables: topics as Arrow, polars and pandas, and tables as topics.

    python examples/records/tables.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints. Needs
``pip install '.[polars]'``.
"""

from __future__ import annotations

import sys

import polars

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and a topic.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("weather", 1, 1))

# %% A table becomes records: "value", and if they are there "key", "timestamp", "headers" and
# "partition". Any library's table will do.
frame = polars.DataFrame(
    {
        "key": [b"kitchen", b"cellar", b"kitchen", b"cellar"],
        "value": [b"21", b"12", b"22", b"11"],
    }
)
with ottla.sync.Producer(servers) as producer:
    producer.send_batch("weather", frame).result()

# %% A topic becomes a table. Where to begin and to end is an offset, a time, or so long ago.
read = ottla.read_polars("weather", bootstrap_servers=servers, columns=["offset", "key", "value"])
print(read.shape)
# -> (4, 3)
last = ottla.read_polars("weather", bootstrap_servers=servers, start=-2, columns=["value"])
print(last["value"].to_list())
# -> [b'22', b'11']

# %% From there on it is the library's business.
celsius = polars.col("value").cast(polars.String).cast(polars.Int64)
means = read.with_columns(celsius.alias("celsius")).group_by("key").agg(polars.mean("celsius"))
print(means.sort("key").rows())
# -> [(b'cellar', 11.5), (b'kitchen', 21.5)]
assert dict(means.rows()) == {b"cellar": 11.5, b"kitchen": 21.5}

# %% read_arrow and read_pandas do the same; with an event loop await aread_arrow and its like.
table = ottla.read_arrow("weather", bootstrap_servers=servers)
print(table.column_names)
# -> ['topic', 'partition', 'offset', 'timestamp', 'key', 'value', 'headers']

# %% A topic that goes on is followed, one Arrow batch after the other.
with ottla.sync.Consumer(servers, offset_reset="earliest") as consumer:
    consumer.assign([ottla.TopicPartition("weather", 0)])
    for batch in consumer.arrow(max_records=3):
        print(batch.num_rows, "rows from offset", batch.column("offset")[0])
        # -> 3 rows from offset 0
        break
cluster.stop()

"""Whole batches: many records in one call, in and out, without an object for each.

    python examples/records/batches.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and a topic.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("readings", 1, 1))
where = ottla.TopicPartition("readings", 0)

# %% A list of values is one call. The delivery says where each part of it is stored.
values = [b"%d degrees" % number for number in range(5_000)]
with ottla.sync.Producer(servers, compression="zstd") as producer:
    parts = producer.send_batch("readings", values).result()
assert sum(part.record_count for part in parts) == 5_000
print("the first is at offset", parts[0].base_offset)
# -> the first is at offset 0

# %% Batches come out as they were sent, still packed: a batch knows where it is without opening.
consumer = ottla.sync.Consumer(servers, offset_reset="earliest")
consumer.start()
consumer.assign([where])
found: list[bytes | None] = []
while len(found) < 5_000:
    for batch in consumer.poll_batches():
        found += batch.values()
print("next offset:", consumer.position(where))
# -> next offset: 5000
assert found == values

# %% Or open them as records, with keys, times and headers.
consumer.seek(where, 4_998)
batches = consumer.poll_batches(10_000)
records = [record for batch in batches for record in batch.records()]
print([(record.offset, record.value) for record in records])
# -> [(4998, b'4998 degrees'), (4999, b'4999 degrees')]

# %% Or as columns: all offsets, all timestamps, all values, each next to each other in memory.
consumer.seek_to_beginning()
count = 0
while count < 5_000:
    for place, columns in consumer.poll_columns():
        assert place == where
        count += columns.count
print(count, "records as columns")
# -> 5000 records as columns

# %% For Arrow, polars and pandas see tables.py.
consumer.close()
cluster.stop()

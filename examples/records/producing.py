"""Producing: records one by one, what becomes of each, and what they carry.

    python examples/records/producing.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers

# %% A topic of two partitions. Using a topic does not make it, unless you allow_auto_create.
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("orders", partition_count=2, replication_factor=1))

# %% send returns as soon as the record is in memory; its delivery tells where it is stored.
producer = ottla.sync.Producer(servers, linger_ms=1)
producer.start()
delivery = producer.send("orders", b"one espresso", partition=0)
stored = delivery.result()
print(f"{stored.topic} {stored.partition} at offset {stored.offset}")
# -> orders 0 at offset 0

# %% Records of one key go to one partition, and stay in order there.
deliveries = [producer.send("orders", b"coffee %d" % number, b"table-7") for number in range(5)]
places = [delivery.result() for delivery in deliveries]
offsets = [place.offset for place in places]
assert {place.partition for place in places} == {places[0].partition}
assert offsets == sorted(offsets)

# %% A record may have headers, and a time of its own. A null value deletes in compacted topics.
producer.send("orders", None, b"table-7", headers=(("why", b"they have left"),)).result()
old = producer.send("orders", b"tea", partition=1, timestamp=1_700_000_000_000).result()
print("taken at", old.timestamp)
# -> taken at 1700000000000

# %% No need to wait for each record: flush waits for all, and on_delivery reports failures.
for number in range(1_000):
    producer.send("orders", b"water %d" % number)
producer.flush()

# %% What is wrong with a record is said at once, or when its delivery is awaited.
try:
    producer.send("orders", b"x", partition=9)
except ottla.RequestRefused as error:
    print(error.code.name)
    # -> UNKNOWN_TOPIC_OR_PARTITION
producer.close()

# %% Everything is there.
with ottla.sync.Consumer(servers) as consumer:
    ends = consumer.end_offsets(consumer.partitions_of("orders"))
print("stored:", sum(ends.values()))
# -> stored: 1008
assert sum(ends.values()) == 1 + 5 + 2 + 1_000
cluster.stop()

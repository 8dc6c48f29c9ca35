"""Failover: three brokers, one of them dies, and nothing that was acknowledged is lost.

    python examples/clusters/failover.py

It starts a cluster of its own, since it kills a broker. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import time

import ottla
import ottla.sync

# %% Three brokers in this process, each with a copy of the topic.
cluster = ottla.Cluster(brokers=3).start()
servers = cluster.bootstrap_servers
cluster.create_topic("orders", configs={"min.insync.replicas": 2})
where = ottla.TopicPartition("orders", 0)
admin = ottla.sync.Admin(servers)
admin.start()
view = admin.describe_topic("orders").partitions[0]
print("copies:", sorted(view.replicas), "in sync:", sorted(view.isr))
# -> copies: [1, 2, 3] in sync: [1, 2, 3]

# %% acks="all", the default: a record is acknowledged when all in-sync replicas have it.
producer = ottla.sync.Producer(servers)
producer.start()
for number in range(10):
    producer.send("orders", b"order %d" % number).result()

# %% The leader dies as by kill -9. Another one takes over; the producer finds it by itself.
leader = cluster.leader("orders")
cluster.faults.kill(leader)
stored = producer.send("orders", b"order 10").result()
print("stored at offset", stored.offset)
# -> stored at offset 10
assert cluster.leader("orders") != leader

# %% Consumers do the same.
with ottla.sync.Consumer(servers, offset_reset="earliest") as consumer:
    consumer.assign([where])
    values: list[bytes | None] = []
    while len(values) < 11:
        values += [record.value for record in consumer.poll()]
print(len(values), "records, the last:", values[-1])
# -> 11 records, the last: b'order 10'
assert values == [b"order %d" % number for number in range(11)]

# %% The dead one comes back, copies what it has missed, and is counted again.
cluster.faults.restart(leader)
while leader not in admin.describe_topic("orders").partitions[0].isr:
    time.sleep(0.1)
print("in sync again:", sorted(admin.describe_topic("orders").partitions[0].isr))
# -> in sync again: [1, 2, 3]
producer.close()
admin.close()
cluster.stop()

"""Partitions: who decides where a record goes, and what happens when a topic grows.

    python examples/records/partitions.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and a topic.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
admin = ottla.sync.Admin(servers)
admin.start()
admin.create_topic(ottla.NewTopic("visits", partition_count=4, replication_factor=1))

KEYS = [b"anna", b"ben", b"cleo", b"dora"]


def places(producer: ottla.sync.Producer, keys: list[bytes]) -> list[int]:
    """The partition of one record for each key."""
    return [producer.send("visits", b"x", key).result().partition for key in keys]


# %% By default a key's hash decides, as Java's producer computes it: murmur2.
with ottla.sync.Producer(servers, linger_ms=0) as producer:
    by_hash = places(producer, KEYS)
    assert places(producer, KEYS) == by_hash
print(by_hash)
# -> [3, 1, 3, 2]

# %% librdkafka's default is another hash. Writers of one topic should agree on one.
with ottla.sync.Producer(servers, linger_ms=0, partitioner="consistent_random") as producer:
    assert places(producer, KEYS) == places(producer, KEYS)


# %% A function of yours: it gets topic, key, value and partition count, all as bytes and numbers.
def by_first_letter(record: ottla.Unplaced) -> int | None:
    """None leaves it to the producer."""
    return record.key[0] % record.partition_count if record.key else None


with ottla.sync.Producer(servers, linger_ms=0, partitioner=by_first_letter) as producer:
    print(places(producer, KEYS))
    # -> [1, 2, 3, 0]
    named = producer.send("visits", b"x", b"anna", partition=3).result()
assert named.partition == 3, "who names a partition is not asked"

# %% A topic can get more partitions, never fewer. From then on keys go elsewhere: what was written
# stays where it is, so order by key holds before and after the change, and not across it.
admin.create_partitions("visits", 8)
while len(admin.describe_topic("visits").partitions) < 8:
    pass
with ottla.sync.Producer(servers, linger_ms=0) as producer:
    now = places(producer, KEYS)
print(len(admin.describe_topic("visits").partitions), "partitions")
# -> 8 partitions
assert now != by_hash
admin.close()
cluster.stop()

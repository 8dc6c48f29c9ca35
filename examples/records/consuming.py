"""Consuming without a group: which partitions, from where, and how far.

    python examples/records/consuming.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and ten records a second apart.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("ticks", 2, 1, {"retention.ms": "-1"}))
BEGAN_MS = 1_700_000_000_000
with ottla.sync.Producer(servers) as producer:
    for number in range(10):
        at_ms = BEGAN_MS + 1_000 * number
        producer.send("ticks", b"tick %d" % number, partition=0, timestamp=at_ms)
    producer.send("ticks", b"elsewhere", partition=1)
first, second = ottla.TopicPartition("ticks", 0), ottla.TopicPartition("ticks", 1)

# %% Assign what to read. Where to begin is yours to say; else offset_reset does, "latest" at first.
consumer = ottla.sync.Consumer(servers, offset_reset="earliest")
consumer.start()
consumer.assign([first])
print([record.value for record in consumer.poll(10_000, max_records=2)])
# -> [b'tick 0', b'tick 1']
print("next:", consumer.position(first), "behind the end by:", consumer.lag(first))
# -> next: 2 behind the end by: 8

# %% Go anywhere: to an offset, to an end, or to a time.
consumer.seek(first, 7)
print(consumer.poll(10_000, 1)[0].value)
# -> b'tick 7'
consumer.seek_to_time(BEGAN_MS + 3_500, first)
print(consumer.poll(10_000, 1)[0].value)
# -> b'tick 4'
consumer.seek_to_beginning()
assert consumer.poll(10_000, 1)[0].offset == 0

# %% Or ask first: which offset is at that time, and where is the end?
print(consumer.offsets_at({first: BEGAN_MS + 9_000})[first].offset)
# -> 9
print(consumer.end_offsets([first, second])[first])
# -> 10

# %% A paused partition gives nothing, and loses nothing.
consumer.assign([first, second])
consumer.seek_to_beginning()
consumer.pause(first)
print([record.value for record in consumer.poll(10_000)])
# -> [b'elsewhere']
consumer.resume(first)
assert consumer.poll(10_000, 1)[0].value == b"tick 0"

# %% Iterating is polling without an end; leave it when you have what you want.
for record in consumer:
    if record.offset == 9:
        print("the last one:", record.value)
        # -> the last one: b'tick 9'
        break
consumer.close()
cluster.stop()

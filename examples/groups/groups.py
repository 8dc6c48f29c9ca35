"""Groups: consumers that share the work, and go on where they stopped.

    python examples/groups/groups.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and a topic with six records.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("mails", partition_count=2, replication_factor=1))
with ottla.sync.Producer(servers) as producer:
    for number in range(6):
        producer.send("mails", b"mail %d" % number, partition=number % 2)


def member() -> ottla.sync.Consumer:
    """One more worker of the group."""
    consumer = ottla.sync.Consumer(
        servers, group_id="postmen", offset_reset="earliest", heartbeat_interval_ms=100
    )
    consumer.start()
    consumer.subscribe(["mails"])
    return consumer


# %% Alone, a member has all partitions.
anna = member()
mails = 0
while mails < 6:
    mails += len(anna.poll())
print(len(anna.assignment), "partitions for Anna")
# -> 2 partitions for Anna

# %% A second member gets its share. Members learn of it while they poll.
ben = member()
while not (len(anna.assignment) == len(ben.assignment) == 1):
    anna.poll(50)
    ben.poll(50)
print(anna.assignment != ben.assignment)
# -> True

# %% When one leaves, the others take over. What it had read is committed when it closes.
anna.close()
while len(ben.assignment) < 2:
    ben.poll(50)
ben.close()

# %% The group remembers. Who comes later begins behind what was read.
with ottla.sync.Admin(servers) as admin:
    offsets = {
        where.partition: one.offset for where, one in admin.groups.offsets("postmen").items()
    }
print(offsets)
# -> {0: 3, 1: 3}
with ottla.sync.Producer(servers) as producer:
    producer.send("mails", b"mail 6", partition=0)
with ottla.sync.Consumer(servers, group_id="postmen") as cleo:
    cleo.subscribe(["mails"])
    for mail in cleo:
        print(mail.value)
        # -> b'mail 6'
        break

# %% Another group reads everything again: groups do not know of each other.
with ottla.sync.Consumer(servers, group_id="archive", offset_reset="earliest") as archive:
    archive.subscribe(["mails"])
    count = 0
    while count < 7:
        count += len(archive.poll())
print("archived", count)
# -> archived 7
cluster.stop()

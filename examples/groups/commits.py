"""Commits by hand: a position is stored when the work is done, and not before.

    python examples/groups/commits.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and a topic with four records.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("invoices", 1, 1))
with ottla.sync.Producer(servers) as producer:
    producer.send_batch("invoices", [b"invoice %d" % number for number in range(4)])
where = ottla.TopicPartition("invoices", 0)


def member() -> ottla.sync.Consumer:
    """A member of the group that commits nothing by itself."""
    consumer = ottla.sync.Consumer(
        servers, group_id="accountants", offset_reset="earliest", auto_commit=False
    )
    consumer.start()
    consumer.subscribe(["invoices"])
    return consumer


def take(consumer: ottla.sync.Consumer, count: int) -> list[bytes | None]:
    """So many values, as soon as they are there."""
    values: list[bytes | None] = []
    while len(values) < count:
        values += [record.value for record in consumer.poll(max_records=count - len(values))]
    return values


# %% commit() is of everything that was handed out.
consumer = member()
take(consumer, 2)
consumer.commit()
print("the group stands at", consumer.committed()[where].offset)
# -> the group stands at 2

# %% What was read and not committed is read again by the next one: at least once.
print(take(consumer, 2))
# -> [b'invoice 2', b'invoice 3']
consumer.close()
heir = member()
print(take(heir, 2))
# -> [b'invoice 2', b'invoice 3']

# %% Or commit record by record: the position is that of the NEXT record to read. A note may go with
# it, for any reader.
heir.commit({where: ottla.Committed(3, metadata="by the night shift")})
stored = heir.committed()[where]
print(stored.offset, stored.metadata)
# -> 3 by the night shift
heir.close()

# %% Automatic commits (the default) store what the application has finished with: every five
# seconds, before partitions are given up, and at the end; never what a failing block had at hand.
try:
    with ottla.sync.Consumer(servers, group_id="accountants") as careless:
        careless.subscribe(["invoices"])
        for record in careless:
            raise ZeroDivisionError(record.value)
except ZeroDivisionError as error:
    print("failed on", error)
    # -> failed on b'invoice 3'
with ottla.sync.Consumer(servers) as reader:
    position = reader.committed("accountants")[where].offset
print("the group still stands at", position)
# -> the group still stands at 3
assert position == 3
cluster.stop()

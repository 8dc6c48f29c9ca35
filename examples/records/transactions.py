"""Transactions: records that are seen together, or never. exactly_once.py is a whole program.

    python examples/records/transactions.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and two accounts.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topics([ottla.NewTopic(name, 1, 1) for name in ("account-a", "account-b")])
both = [ottla.TopicPartition("account-a", 0), ottla.TopicPartition("account-b", 0)]


def seen(isolation: ottla.Isolation) -> list[bytes]:
    """All values that such a reader gets now, in order of their bytes."""
    values: list[bytes] = []
    with ottla.sync.Consumer(servers, isolation=isolation, offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(both)
        consumer.assign(both)
        while any((consumer.position(where) or 0) < ends[where] for where in both):
            values += [record.value or b"" for record in consumer.poll(100)]
    return sorted(values)


COMMITTED = ottla.Isolation.READ_COMMITTED
EVERYTHING = ottla.Isolation.READ_UNCOMMITTED

# %% The id is the application's: a producer with the same id ends what its predecessor left.
producer = ottla.sync.Producer(servers, transactional_id="bank")
producer.start()
producer.init_transactions()

# %% The block commits at its end, and aborts when something in it fails.
with producer.transaction():
    producer.send("account-a", b"-5")
    producer.send("account-b", b"+5")
print(seen(COMMITTED))
# -> [b'+5', b'-5']
try:
    with producer.transaction():
        producer.send("account-a", b"-100").result()
        raise ValueError("there is no such money")
except ValueError as error:
    print(error)
    # -> there is no such money

# %% Readers of committed records never see what was aborted. The others do, so choose.
print(seen(COMMITTED))
# -> [b'+5', b'-5']
print(seen(EVERYTHING))
# -> [b'+5', b'-100', b'-5']

# %% While a transaction is open, readers of committed records wait in front of it.
producer.begin_transaction()
producer.send("account-a", b"-7").result()
assert b"-7" not in seen(COMMITTED)
producer.send_offsets_to_transaction({ottla.TopicPartition("account-b", 0): 2}, "billing")
producer.commit_transaction()
assert b"-7" in seen(COMMITTED)

# %% Positions of groups may be part of it: what was read and what was made of it, at once.
with ottla.sync.Consumer(servers) as consumer:
    print(consumer.committed("billing"))
    # -> {TopicPartition(topic='account-b', partition=0): Committed(offset=2, ...)}

# %% A second producer of the same id ends the first one, whatever it was about to do.
with ottla.sync.Producer(servers, transactional_id="bank") as successor:
    successor.init_transactions()
    try:
        with producer.transaction():
            producer.send("account-a", b"-9")
    except ottla.ProducerFenced:
        print("the first one is fenced")
        # -> the first one is fenced
assert b"-9" not in seen(EVERYTHING)
producer.close()
cluster.stop()

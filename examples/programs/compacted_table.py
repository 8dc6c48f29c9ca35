"""A compacted topic as a table: the last value of each key is what counts.

    python examples/programs/compacted_table.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync
from ottla.serializers import JSON, TEXT

# %% A cluster in this process, or the one whose address is given. In a compacted topic the brokers
# may remove a record once there is a later one of its key, and never the last one.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topic(ottla.NewTopic("prices", 2, 1, {"cleanup.policy": "compact"}))

# %% Writing is an update, and a null value deletes: a tombstone.
prices = ottla.sync.Producer(
    servers, key_serializer=TEXT.encode, value_serializer=JSON.encode, linger_ms=1
)
prices.start()
for fruit, cents in [("apple", 30), ("pear", 45), ("apple", 35), ("plum", 20)]:
    prices.send("prices", cents, fruit)
prices.send("prices", None, "plum")
prices.flush()


# %% Reading the table is reading all of it once, up to what is the end when one begins.
class Table:
    """Rows by their keys, as they are now."""

    def __init__(self, consumer: ottla.sync.Consumer[str, int]) -> None:
        self.rows: dict[str, int] = {}
        self._consumer = consumer
        consumer.assign(consumer.partitions_of("prices"))
        consumer.seek_to_beginning()

    def catch_up(self) -> None:
        """Take over what was written until now."""
        ends = self._consumer.end_offsets(self._consumer.assignment)
        while any((self._consumer.position(where) or 0) < end for where, end in ends.items()):
            for record in self._consumer.poll(100):
                assert record.key is not None, "a record of a table has a key"
                if record.value is None:
                    self.rows.pop(record.key, None)
                else:
                    self.rows[record.key] = record.value


with ottla.sync.Consumer(
    servers, key_deserializer=TEXT.decode, value_deserializer=JSON.decode
) as consumer:
    table = Table(consumer)
    table.catch_up()
    print(sorted(table.rows.items()))
    # -> [('apple', 35), ('pear', 45)]

    # %% A consumer that continues to read keeps its copy up to date.
    prices.send("prices", 50, "pear").result()
    table.catch_up()
    print(table.rows["pear"])
    # -> 50
assert table.rows == {"apple": 35, "pear": 50}
prices.close()
cluster.stop()

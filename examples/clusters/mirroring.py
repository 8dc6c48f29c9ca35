"""Mirrors: copying topics of one cluster into another. ``ottla mirror run`` does it as a command.

    python examples/clusters/mirroring.py

It starts two clusters of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import asyncio

import ottla
import ottla.sync
from ottla.client.mirror.mirror import Mirror
from ottla.client.mirror.settings import MirrorSettings, MirrorSource

# %% A cluster in a branch, with orders, and the one of the head office.
west, central = ottla.Cluster().start(), ottla.Cluster().start()
west.create_topic("orders", partitions=2)
with ottla.sync.Producer(west.bootstrap_servers) as producer:
    for number in range(6):
        producer.send("orders", b"order %d" % number, b"customer %d" % (number % 3))

# %% A source has an alias and the topics that are copied: names, or expressions that begin with ^.
settings = MirrorSettings(
    target=central.bootstrap_servers,
    sources=(
        MirrorSource(
            alias="west",
            bootstrap=west.bootstrap_servers,
            topics=("^orders",),
            rename="{source}.{topic}",
        ),
    ),
    exactly_once=True,
)


# %% This one ends when it has everything; without until_end it goes on until stop().
async def copy() -> None:
    """All there is."""
    async with Mirror(settings, until_end=True) as mirror:
        await mirror.wait()


asyncio.run(copy())

# %% The copy has the same partitions, keys and order.
with ottla.sync.Consumer(central.bootstrap_servers, offset_reset="earliest") as consumer:
    consumer.assign(consumer.partitions_of("west.orders"))
    records: list[ottla.ConsumerRecord[bytes, bytes]] = []
    while len(records) < 6:
        records += consumer.poll()
print(sorted(record.value or b"" for record in records)[-1])
# -> b'order 5'

# %% What came since is copied by the next run, and nothing twice.
with ottla.sync.Producer(west.bootstrap_servers) as producer:
    producer.send("orders", b"order 6")
asyncio.run(copy())
copied = ottla.read_arrow("west.orders", bootstrap_servers=central.bootstrap_servers)
print(copied.num_rows, "records")
# -> 7 records
assert copied.num_rows == 7
central.stop()
west.stop()

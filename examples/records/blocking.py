"""The clients without asyncio: a script, a thread pool, a web server of the older kind.

    python examples/records/blocking.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import ottla
import ottla.sync
from ottla.serializers import JSON, TEXT


def main(bootstrap: str) -> None:
    """Send from several threads, read in a group, look at the group."""
    with ottla.sync.Admin(bootstrap) as admin:
        admin.create_topic(ottla.NewTopic("visits", partition_count=2, replication_factor=1))

        with (
            ottla.sync.Producer(
                bootstrap, key_serializer=TEXT.encode, value_serializer=JSON.encode
            ) as producer,
            ThreadPoolExecutor(4) as threads,
        ):
            deliveries = threads.map(
                lambda number: producer.send("visits", {"page": number}, f"user-{number % 3}"),
                range(12),
            )
            places = [delivery.result() for delivery in deliveries]
        print(f"stored {len(places)} records, the last in {places[-1].topic}")
        # -> stored 12 records, the last in visits

        with ottla.sync.Consumer(
            bootstrap,
            group_id="readers",
            offset_reset="earliest",
            key_deserializer=TEXT.decode,
            value_deserializer=JSON.decode,
        ) as consumer:
            consumer.subscribe(["visits"])
            for count, record in enumerate(consumer, 1):
                print(f"{record.key}: {record.value}")
                # -> user-...: {'page': ...}
                # -> ...
                if count == len(places):
                    break

        for where, position in sorted(admin.groups.offsets("readers").items()):
            print(f"the group goes on at offset {position.offset} of {where}")
            # -> the group goes on at offset 8 of visits-0
            # -> the group goes on at offset 4 of visits-1


if __name__ == "__main__":
    cluster = ottla.Cluster()
    main(sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers)
    cluster.stop()

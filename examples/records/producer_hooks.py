"""What an application can put into a producer's way: a partitioner, an interceptor, a callback.

    python examples/records/producer_hooks.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import asyncio
import sys

import ottla


def by_country(record: ottla.Unplaced) -> int | None:
    """Keys are like ``at-4711``; one country's records are in one partition, in order. Without a
    key the producer chooses."""
    if record.key is None:
        return None
    return sum(record.key[:2]) % record.partition_count


class Origin(ottla.ProducerInterceptor):
    """Says in a header where a record comes from."""

    def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
        return record._replace(headers=(*record.headers, ("origin", b"examples")))


def report(fate: ottla.DeliveryReport) -> None:
    """Once for each batch, also for one that has failed."""
    outcome = fate.error or f"from offset {fate.base_offset} on"
    print(f"{fate.record_count} records in partition {fate.partition}: {outcome}")
    # -> ... records in partition ...: from offset 0 on
    # -> ...


async def main(bootstrap: str) -> None:
    """Send some records and read them back."""
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topic(ottla.NewTopic("parcels", 3, 1))
    async with ottla.Producer(
        bootstrap, partitioner=by_country, interceptors=(Origin(),), on_delivery=report
    ) as producer:
        for key in (b"at-1", b"ch-1", b"at-2", None):
            await producer.send("parcels", b"a parcel", key)
    async with ottla.Consumer(bootstrap, offset_reset="earliest") as consumer:
        consumer.assign(await consumer.partitions_of("parcels"))
        found = 0
        while found < 4:
            for record in await consumer.poll():
                found += 1
                print(record.partition, record.key, dict(record.headers))
                # -> ...
                # -> ... b'at-2' {'origin': b'examples'}
                # -> ...


if __name__ == "__main__":
    cluster = ottla.Cluster()
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers))
    cluster.stop()

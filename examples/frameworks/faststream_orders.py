"""Handlers with FastStream, whose own client (aiokafka) talks to Ottla's brokers:
``pip install 'faststream[kafka]'``.

    python examples/frameworks/faststream_orders.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import asyncio
import sys

from faststream.kafka import KafkaBroker

import ottla


async def main(bootstrap: str) -> None:
    """Two handlers: the answers of the first are what the second reads."""
    async with ottla.Admin(bootstrap) as admin:
        for topic in ("orders", "bills"):
            await admin.create_topic(ottla.NewTopic(topic, 1, 1))
    broker = KafkaBroker(bootstrap, logger=None)
    done = asyncio.Event()

    @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
    @broker.publisher("bills")
    async def bill(cents: int) -> str:
        return f"{cents / 100:.2f}"

    @broker.subscriber("bills", group_id="mail", auto_offset_reset="earliest")
    async def mail(text: str) -> None:
        print(f"to pay: {text}")
        # -> to pay: 19.99
        done.set()

    async with broker:
        await broker.start()
        await broker.publish(1999, topic="orders")
        await done.wait()


if __name__ == "__main__":
    cluster = ottla.Cluster()
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers))
    cluster.stop()

"""A stream with Faust, whose own client (aiokafka) talks to Ottla's brokers:
``pip install faust-streaming``.

    ottla start &
    ottla topics create orders
    python examples/frameworks/faust_orders.py 127.0.0.1:9092

It prints a running total of each customer, and ends after the last order. Lines with ``# ->`` are
what it prints.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile

import faust

bootstrap, *_ = sys.argv[1:]
app = faust.App(
    "totals",
    broker=f"kafka://{bootstrap}",
    store="memory://",
    datadir=tempfile.mkdtemp(),
    topic_partitions=1,
    topic_replication_factor=1,
    web_enabled=False,
)
orders = app.topic("orders", key_type=str, value_type=int)
totals = app.Table("totals", default=int)


@app.agent(orders)  # type: ignore[untyped-decorator]
async def count(stream: faust.StreamT[int]) -> None:
    """Keep the totals in a table, whose changes are a topic of its own."""
    async for customer, cents in stream.items():
        totals[customer] += cents
        print(f"{customer} has ordered for {totals[customer] / 100:.2f}", flush=True)
        # -> ada has ordered for 19.99
        # -> ada has ordered for 25.00
        if totals[customer] == 2500:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)


@app.task  # type: ignore[untyped-decorator]
async def order() -> None:
    """Two orders."""
    for cents in (1999, 501):
        await orders.send(key="ada", value=cents)


if __name__ == "__main__":
    faust.Worker(app, loglevel="CRITICAL", redirect_stdouts=False).execute_from_commandline()

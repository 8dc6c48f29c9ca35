"""A web service with FastAPI: ``pip install fastapi``, and uvicorn to serve it.

    python examples/frameworks/fastapi_orders.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.

One producer and one consumer live as long as the application does: its lifespan starts and stops
them. A request is answered when its record is stored on all replicas in sync.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import fastapi
import httpx

import ottla
from ottla.serializers import JSON, TEXT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def application(bootstrap: str) -> fastapi.FastAPI:
    """The service, as ``uvicorn --factory`` takes it."""
    totals: dict[str, int] = {}

    async def count(consumer: ottla.Consumer[str, dict[str, int]]) -> None:
        async for record in consumer:
            if record.key is not None and record.value is not None:
                totals[record.key] = totals.get(record.key, 0) + record.value["cents"]

    @asynccontextmanager
    async def lifespan(app: fastapi.FastAPI) -> AsyncIterator[None]:
        async with (
            ottla.Producer(
                bootstrap, key_serializer=TEXT.encode, value_serializer=JSON.encode
            ) as producer,
            ottla.Consumer(
                bootstrap,
                group_id="totals",
                offset_reset="earliest",
                key_deserializer=TEXT.decode,
                value_deserializer=JSON.decode,
            ) as consumer,
        ):
            app.state.producer = producer
            await consumer.subscribe(["orders"])
            counting = asyncio.create_task(count(consumer))
            yield
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.post("/orders/{customer}", status_code=201)
    async def order(customer: str, cents: int) -> dict[str, int]:
        delivery = await app.state.producer.send("orders", {"cents": cents}, customer)
        stored = await delivery
        return {"partition": stored.partition, "offset": stored.offset}

    @app.get("/totals/{customer}")
    async def total(customer: str) -> dict[str, int]:
        return {"cents": totals.get(customer, 0)}

    return app


async def main(bootstrap: str) -> None:
    """Ask the service as a browser would, in this process."""
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topic(ottla.NewTopic("orders", 1, 1))
    app = application(bootstrap)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop") as client,
    ):
        for cents in (1999, 501):
            answer = await client.post("/orders/ada", params={"cents": cents})
            print(answer.status_code, answer.json())
            # -> 201 {'partition': 0, 'offset': 0}
            # -> 201 {'partition': 0, 'offset': 1}
        while (await client.get("/totals/ada")).json() != {"cents": 2500}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        print("ada has ordered for 25.00")
        # -> ada has ordered for 25.00


if __name__ == "__main__":
    cluster = ottla.Cluster()
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers))
    cluster.stop()

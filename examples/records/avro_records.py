"""Values in Avro, with fastavro: ``pip install fastavro``.

    python examples/records/avro_records.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.

A serializer is a function from a value to bytes. One that knows the topic, as those of a schema
registry do, is an object whose ``for_topic`` returns that function; it is asked once per topic.
"""

from __future__ import annotations

import asyncio
import io
import sys
from typing import TYPE_CHECKING, Any

import fastavro

import ottla

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMAS = {
    "orders": {
        "name": "Order",
        "type": "record",
        "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "long"}],
    }
}


class Avro:
    """The schema of each topic, in place of a registry."""

    def __init__(self, *, writes: bool) -> None:
        self._writes = writes

    def for_topic(self, topic: str) -> Callable[[Any], Any]:
        """The function that writes, or reads, the values of that topic."""
        schema = fastavro.parse_schema(SCHEMAS[topic])

        def write(value: dict[str, Any]) -> bytes:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, value)
            return out.getvalue()

        def read(data: bytes) -> Any:
            return fastavro.schemaless_reader(io.BytesIO(data), schema, None)

        return write if self._writes else read


async def main(bootstrap: str) -> None:
    """Write an order and read it back."""
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topic(ottla.NewTopic("orders", 1, 1))
    async with ottla.Producer(bootstrap, value_serializer=Avro(writes=True)) as producer:
        await producer.send("orders", {"id": "A-1", "cents": 1999})
    async with ottla.Consumer(
        bootstrap, offset_reset="earliest", value_deserializer=Avro(writes=False)
    ) as consumer:
        consumer.assign([ottla.TopicPartition("orders", 0)])
        async for record in consumer:
            print(record.value)
            # -> {'id': 'A-1', 'cents': 1999}
            break


if __name__ == "__main__":
    cluster = ottla.Cluster()
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers))
    cluster.stop()

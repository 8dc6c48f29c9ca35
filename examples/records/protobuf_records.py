"""Values in Protocol Buffers: ``pip install protobuf``.

    python examples/records/protobuf_records.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.

``Order`` is made here as protoc would make it of

    message Order { string id = 1; int64 cents = 2; }

so that the example is one file; an application imports it from its own ``orders_pb2``. Then
``Order.SerializeToString`` and ``Order.FromString`` are the serializer and the deserializer.
"""

from __future__ import annotations

import asyncio
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import ottla

FIELD = descriptor_pb2.FieldDescriptorProto
FILE = descriptor_pb2.FileDescriptorProto(
    name="orders.proto",
    package="example",
    message_type=[
        descriptor_pb2.DescriptorProto(
            name="Order",
            field=[
                FIELD(name="id", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL),
                FIELD(name="cents", number=2, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL),
            ],
        )
    ],
)
POOL = descriptor_pool.DescriptorPool()
POOL.Add(FILE)
Order = message_factory.GetMessageClass(POOL.FindMessageTypeByName("example.Order"))


async def main(bootstrap: str) -> None:
    """Write an order and read it back."""
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topic(ottla.NewTopic("orders", 1, 1))
    async with ottla.Producer(bootstrap, value_serializer=Order.SerializeToString) as producer:
        await producer.send("orders", Order(id="A-1", cents=1999))
    async with ottla.Consumer(
        bootstrap, offset_reset="earliest", value_deserializer=Order.FromString
    ) as consumer:
        consumer.assign([ottla.TopicPartition("orders", 0)])
        async for record in consumer:
            assert record.value is not None
            print(record.value.id, record.value.cents)
            # -> A-1 1999
            break


if __name__ == "__main__":
    cluster = ottla.Cluster()
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers))
    cluster.stop()

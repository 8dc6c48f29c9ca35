"""Our client: by the record, by the batch, by Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import uvloop

from benchmarks.client_loads.orders import Orders, Watch
from ottla import Consumer, ConsumerConfig, Producer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Coroutine

RECORDS_PER_CALL = 10_000


def run(work: Coroutine[Any, Any, Watch]) -> Watch:
    return uvloop.run(work)


def produce_records(orders: Orders) -> Watch:
    """``send`` record by record."""

    async def work() -> Watch:
        value, topic = orders.value, orders.topic
        async with Producer(orders.address) as producer:
            await producer.partition_count(topic)
            watch = Watch()
            for _ in range(orders.count):
                await producer.send(topic, value)
            await producer.flush()
            return watch.stop(orders.count)

    return run(work())


def produce_batches(orders: Orders) -> Watch:
    """``send_batch`` with lists of values: one value again and again, as the other clients have
    it, which stays in the processor's cache."""
    return _produce(orders, [orders.value] * RECORDS_PER_CALL)


def produce_arrow(orders: Orders) -> Watch:
    """``send_batch`` with Arrow batches: at 1 KiB ten megabytes, which have to come from memory."""
    values = pa.array([orders.value] * RECORDS_PER_CALL, pa.binary())
    return _produce(orders, pa.record_batch({"value": values}))


def _produce(orders: Orders, records: Any) -> Watch:
    async def work() -> Watch:
        async with Producer(orders.address) as producer:
            await producer.partition_count(orders.topic)
            watch = Watch()
            for _ in range(orders.count // RECORDS_PER_CALL):
                await producer.send_batch(orders.topic, records)
            await producer.flush()
            return watch.stop(orders.count)

    return run(work())


async def _consumer(orders: Orders) -> Consumer:
    """A consumer that has read its first records."""
    consumer = Consumer(orders.address, ConsumerConfig(offset_reset="earliest"))
    await consumer.start()
    consumer.assign([TopicPartition(orders.topic, 0)])
    await consumer.poll(10_000, 1)
    return consumer


def consume_records(orders: Orders) -> Watch:
    """``poll`` with its defaults."""

    async def work() -> Watch:
        consumer, seen = await _consumer(orders), 1
        watch = Watch()
        while seen < orders.count:
            seen += len(await consumer.poll())
        watch.stop(seen)
        await consumer.close()
        return watch

    return run(work())


def iterate_records(orders: Orders) -> Watch:
    """``async for record in consumer``."""

    async def work() -> Watch:
        consumer, seen = await _consumer(orders), 1
        watch = Watch()
        async for _ in consumer:
            seen += 1
            if seen == orders.count:
                break
        watch.stop(seen)
        await consumer.close()
        return watch

    return run(work())


def consume_batches(orders: Orders) -> Watch:
    """``poll_batches``, and the values of each."""

    async def work() -> Watch:
        consumer, seen = await _consumer(orders), 1
        watch = Watch()
        while seen < orders.count:
            for batch in await consumer.poll_batches():
                seen += len(batch.values())
        watch.stop(seen)
        await consumer.close()
        return watch

    return run(work())


def consume_arrow(orders: Orders) -> Watch:
    """``consumer.arrow()``."""

    async def work() -> Watch:
        consumer, seen = await _consumer(orders), 1
        watch = Watch()
        async for batch in consumer.arrow():
            seen += batch.num_rows
            if seen >= orders.count:
                break
        watch.stop(seen)
        await consumer.close()
        return watch

    return run(work())

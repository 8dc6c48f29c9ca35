"""aiokafka, unmodified: it sends the oldest versions that are still in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.interop.samples import Sample, digest, samples

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess


async def send_all(
    broker: BrokerProcess, topic: str, records: list[Sample], codec: str | None, *, idempotent: bool
) -> None:
    """Send to partition 0 and wait for every acknowledgement."""
    producer = AIOKafkaProducer(
        bootstrap_servers=broker.address,
        compression_type=codec,
        enable_idempotence=idempotent,
        linger_ms=20,
    )
    await producer.start()
    try:
        futures = [
            await producer.send(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=0,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        for future in futures:
            await future
    finally:
        await producer.stop()


async def read_all(broker: BrokerProcess, topic: str, count: int) -> list[Sample]:
    """Read partition 0 from its beginning."""
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.address, enable_auto_commit=False)
    await consumer.start()
    try:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek(where, 0)
        found: list[Sample] = []
        while len(found) < count:
            for messages in (await consumer.getmany(timeout_ms=10_000)).values():
                found += [Sample(m.key, m.value, tuple(m.headers), m.timestamp) for m in messages]
        return found
    finally:
        await consumer.stop()


@pytest.mark.requirement("NET-15", "FMT-24")
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_comes_back_byte_for_byte(
    broker: BrokerProcess, topic: str, codec: str | None
) -> None:
    """ApiVersions version 0 and the versions before flexible encodings."""
    sent = samples()

    await send_all(broker, topic, sent, codec, idempotent=False)

    assert digest(sent) == digest(await read_all(broker, topic, len(sent)))


@pytest.mark.requirement("IDM-01", "IDM-02")
async def test_an_idempotent_producer_writes_in_order(broker: BrokerProcess, topic: str) -> None:
    """InitProducerId version 0."""
    sent = samples()

    await send_all(broker, topic, sent, None, idempotent=True)

    assert digest(sent) == digest(await read_all(broker, topic, len(sent)))

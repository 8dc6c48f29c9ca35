"""kafka-python, unmodified: produce with every codec, read by assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.interop.samples import Sample, digest, samples

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess


def send_all(broker: BrokerProcess, topic: str, records: list[Sample], **settings: Any) -> None:
    """Send to partition 0 and wait for every acknowledgement."""
    producer = KafkaProducer(bootstrap_servers=broker.address, linger_ms=20, **settings)
    try:
        futures = [
            producer.send(
                topic,
                key=record.key,
                value=record.value,
                headers=[(name, value or b"") for name, value in record.headers],
                partition=0,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]
        producer.flush(20)
        for future in futures:
            future.get(10)
    finally:
        producer.close()


def read_all(broker: BrokerProcess, topic: str, count: int) -> list[Sample]:
    """Read partition 0 from its beginning."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address, enable_auto_commit=False, consumer_timeout_ms=10_000
    )
    try:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek(where, 0)
        found = []
        for message in consumer:
            headers = tuple((name, value) for name, value in message.headers)
            found.append(Sample(message.key, message.value, headers, message.timestamp))
            if len(found) == count:
                break
        return found
    finally:
        consumer.close()


def sendable() -> list[Sample]:
    """The samples without null header values, which this client's API does not promise."""
    return [record for record in samples() if all(value is not None for _, value in record.headers)]


def create(broker: BrokerProcess, topic: str) -> None:
    """Create the topic with one partition."""
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        admin.create_topics([NewTopic(name=topic, num_partitions=1, replication_factor=1)])
    finally:
        admin.close()


@pytest.mark.requirement("NET-15", "FMT-24")
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_byte_for_byte(
    broker: BrokerProcess, topic: str, codec: str | None
) -> None:
    """This client checks checksums and decodes records in Python, independently of librdkafka."""
    create(broker, topic)
    sent = sendable()

    send_all(broker, topic, sent, compression_type=codec)

    assert digest(sent) == digest(read_all(broker, topic, len(sent)))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acknowledgement_level_delivers(
    broker: BrokerProcess, topic: str, acks: int | str
) -> None:
    """With acks=0 the client gets no answer at all, and must not be sent one."""
    create(broker, topic)
    sent = sendable()

    send_all(broker, topic, sent, acks=acks, enable_idempotence=False)

    assert digest(sent) == digest(read_all(broker, topic, len(sent)))


def test_topics_are_listed_and_deleted(broker: BrokerProcess, topic: str) -> None:
    """The administrator's calls of this client."""
    create(broker, topic)
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    try:
        assert topic in admin.list_topics()
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
    finally:
        admin.close()

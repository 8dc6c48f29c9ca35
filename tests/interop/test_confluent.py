"""Tests that only librdkafka can run, beyond those of every client in `test_clients`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from tests.interop.support.samples import BASE_TIMESTAMP, Sample, digest

if TYPE_CHECKING:
    from tests.interop.conftest import Bootstrap


@pytest.fixture(autouse=True)
def _named(broker: Bootstrap) -> None:
    """These frames are librdkafka's too."""
    broker.used_by(f"confluent_kafka_{confluent_kafka.__version__}")


def admin_of(broker: Bootstrap) -> AdminClient:
    """An administrator's client."""
    return AdminClient({"bootstrap.servers": broker.address})


def create(broker: Bootstrap, topic: str, partitions: int = 1, **config: str) -> None:
    """Create the topic and wait for it."""
    wanted = NewTopic(
        topic, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()}
    )
    admin = admin_of(broker)
    for future in admin.create_topics([wanted]).values():
        future.result(10)


def produce(broker: Bootstrap, topic: str, records: list[Sample], **settings: Any) -> None:
    """Send all records to partition 0 and wait until they are acknowledged."""
    config = {"bootstrap.servers": broker.address, "linger.ms": 20}
    config |= {key.replace("_", "."): value for key, value in settings.items()}
    errors: list[Any] = []
    producer = Producer(config)
    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=record.timestamp,
            partition=0,
            on_delivery=lambda error, _message: errors.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert errors == []


def read(broker: Bootstrap, topic: str, count: int, offset: int = 0, **settings: Any) -> list[Any]:
    """Read that many messages of partition 0 by assignment."""
    config = {
        "bootstrap.servers": broker.address,
        "group.id": "unused",
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    config |= {key.replace("_", "."): value for key, value in settings.items()}
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        messages: list[Any] = []
        while len(messages) < count:
            batch = consumer.consume(count - len(messages), timeout=60)
            assert batch, f"only {len(messages)} of {count} messages came"
            for message in batch:
                assert message.error() is None, message.error()
            messages += batch
        return messages
    finally:
        consumer.close()


def as_samples(messages: list[Any]) -> list[Sample]:
    """Consumed records, in the form that was sent."""
    return [
        Sample(m.key(), m.value(), tuple(m.headers() or ()), m.timestamp()[1]) for m in messages
    ]


@pytest.mark.requirement("IDM-01", "IDM-03", "IDM-05")
def test_an_idempotent_producer_writes_in_order(broker: Bootstrap, topic: str) -> None:
    """Sequences are checked by the broker: a mistake here is a fatal error in the client."""
    create(broker, topic)
    sent = [Sample(None, str(n).encode(), (), BASE_TIMESTAMP + n) for n in range(20_000)]

    produce(broker, topic, sent, enable_idempotence=True, batch_size=4000)
    messages = read(broker, topic, len(sent))

    assert digest(sent) == digest(as_samples(messages))
    assert list(range(len(sent))) == [message.offset() for message in messages]


@pytest.mark.requirement("LOG-15", "LOG-16")
def test_offsets_by_name_and_by_time(broker: Bootstrap, topic: str) -> None:
    """Beginning, end, the first record at a time, and the largest timestamp."""
    create(broker, topic)
    sent = [Sample(None, b"x", (), BASE_TIMESTAMP + n * 1000) for n in range(100)]
    produce(broker, topic, sent)
    where = TopicPartition(topic, 0)
    wanted = {
        "earliest": OffsetSpec.earliest(),
        "latest": OffsetSpec.latest(),
        "middle": OffsetSpec.for_timestamp(BASE_TIMESTAMP + 49_500),
        "beyond": OffsetSpec.for_timestamp(BASE_TIMESTAMP + 10**9),
        "largest": OffsetSpec.max_timestamp(),
    }

    admin = admin_of(broker)
    found = {
        name: next(iter(admin.list_offsets({where: spec}).values())).result(10).offset
        for name, spec in wanted.items()
    }

    assert found == {"earliest": 0, "latest": 100, "middle": 50, "beyond": -1, "largest": 99}


def test_an_offset_out_of_range_is_said(broker: Bootstrap, topic: str) -> None:
    """With auto.offset.reset=error the application learns that its offset is gone."""
    create(broker, topic)
    produce(broker, topic, [Sample(None, b"x", (), BASE_TIMESTAMP)])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "unused",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 50)])

    message = consumer.poll(10)
    consumer.close()

    assert message is not None
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET


@pytest.mark.requirement("NET-32")
def test_a_record_above_the_limit_is_refused_alone(broker: Bootstrap, topic: str) -> None:
    """The producer learns MSG_SIZE_TOO_LARGE and the next record goes through."""
    create(broker, topic, max_message_bytes="10000")
    errors: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": broker.address, "message.max.bytes": 2_000_000, "linger.ms": 0}
    )

    for size in (100, 50_000, 100):
        producer.produce(
            topic, b"x" * size, partition=0, on_delivery=lambda error, _m: errors.append(error)
        )
        producer.flush(10)

    assert [error and error.code() for error in errors] == [
        None,
        KafkaError.MSG_SIZE_TOO_LARGE,
        None,
    ]

"""Foreign clients and our own over every mechanism: records, groups, wrong passwords."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from ottla.broker.server.first_users import parse_first_user
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.wire.errors import AuthenticationFailed
from tests.support.sasl_broker import running_broker, sasl_settings

if TYPE_CHECKING:
    from collections.abc import Callable

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = [
    parse_first_user(f"{mechanism}=[name=alice,password=alice-secret]")
    for mechanism in MECHANISMS[1:]
]
SECONDS_MAX = 60


def _confluent(where: str, mechanism: str, password: str) -> bytes | None:
    """What was produced and then consumed in a group; raises on a refused login."""
    common: dict[str, Any] = {
        "bootstrap.servers": where,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        "logger": _silent(),
    }
    producer = confluent_kafka.Producer({**common, "transactional.id": f"confluent-{mechanism}"})
    producer.init_transactions(2 if password == "wrong" else SECONDS_MAX)
    producer.begin_transaction()
    producer.produce("confluent", b"by confluent")
    producer.commit_transaction(SECONDS_MAX)
    consumer = confluent_kafka.Consumer(
        {**common, "group.id": f"confluent-{mechanism}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["confluent"])
    try:
        message = consumer.poll(SECONDS_MAX)
        return None if message is None else message.value()
    finally:
        consumer.close()


def _silent() -> Any:
    logger = logging.getLogger("confluent-of-this-test")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


def _kafka_python(where: str, mechanism: str, password: str) -> bytes | None:
    common: dict[str, Any] = {
        "bootstrap_servers": where,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }
    producer = kafka.KafkaProducer(**common)
    try:
        producer.send("kafka-python", b"by kafka-python").get(SECONDS_MAX)
    finally:
        producer.close(5)
    consumer = kafka.KafkaConsumer(
        "kafka-python",
        **common,
        group_id=f"kafka-python-{mechanism}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS_MAX * 1000,
    )
    try:
        return next(consumer).value  # type: ignore[no-any-return]
    finally:
        consumer.close()


async def _aiokafka(where: str, mechanism: str, password: str) -> bytes | None:
    common: dict[str, Any] = {
        "bootstrap_servers": where,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }
    producer = aiokafka.AIOKafkaProducer(**common)
    try:
        await producer.start()
        await producer.send_and_wait("aiokafka", b"by aiokafka")
    finally:
        await producer.stop()
    async with aiokafka.AIOKafkaConsumer(
        "aiokafka", **common, group_id=f"aiokafka-{mechanism}", auto_offset_reset="earliest"
    ) as consumer:
        message = await consumer.getone()
        return message.value  # type: ignore[no-any-return]


async def _ottla(where: str, mechanism: str, password: str) -> bytes | None:
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }
    async with Producer(
        where, security=security, transactional_id=f"o-{mechanism}", allow_auto_create=True
    ) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("ottla", b"by ottla")
    async with Consumer(
        where, security=security, group_id=f"o-{mechanism}", offset_reset="earliest"
    ) as consumer:
        await consumer.subscribe(["ottla"])
        async for record in consumer:
            return record.value
    return None


def _in_thread(work: Callable[[str, str, str], Any]) -> Any:
    async def run(where: str, mechanism: str, password: str) -> Any:
        return await asyncio.to_thread(work, where, mechanism, password)

    return run


CLIENTS: dict[str, tuple[Any, tuple[type[Exception], ...]]] = {
    "confluent": (_in_thread(_confluent), (confluent_kafka.KafkaException,)),
    # It tries a refused login again until its own limit of half a minute is over.
    "kafka-python": (_in_thread(_kafka_python), ()),
    "aiokafka": (_aiokafka, (aiokafka.errors.KafkaError,)),
    "ottla": (_ottla, (AuthenticationFailed,)),
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_works_with_every_mechanism_and_fails_with_a_wrong_password(
    name: str,
) -> None:
    """Each has its own idea of SASL; all of them get in, and out."""
    work, refused = CLIENTS[name]
    settings = sasl_settings(*MECHANISMS)
    async with running_broker(settings, first_users=USERS) as running:
        address = running.broker.address
        where = f"{address.host}:{address.port}"
        for mechanism in MECHANISMS:
            assert await work(where, mechanism, "alice-secret") == f"by {name}".encode()
        for mechanism in MECHANISMS[:2] if refused else ():
            begun = time.monotonic()
            with pytest.raises(refused):
                await work(where, mechanism, "wrong")
            assert time.monotonic() - begun < SECONDS_MAX
        assert bool(running.broker.parts.logins.failure_count) is bool(refused)

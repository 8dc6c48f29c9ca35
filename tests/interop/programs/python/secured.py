"""The Python clients over SASL_SSL: orders in the environment, the outcome of each call as JSON.

``python -m tests.interop.programs.python.secured confluent`` (or ``kafka_python``, ``aio``).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 20
ORDERS: dict[str, Any] = json.loads(os.environ.get("INTEROP_ORDERS", "{}"))
Calls = dict[str, "Callable[[], object]"]


def confluent(settings: dict[str, Any]) -> Calls:
    """librdkafka."""
    topic, count = ORDERS["Topic"], ORDERS["Count"]

    def send(producer: Any) -> None:
        errors: list[Any] = []
        for number in range(count):
            producer.produce(topic, str(number), on_delivery=lambda error, _: errors.append(error))
        producer.flush(WAIT_S)
        wrong = [error for error in errors if error is not None]
        if wrong or len(errors) < count:
            raise RuntimeError(f"{len(errors)} outcomes, {wrong[:1]}")

    def produce() -> None:
        limit = {"enable.idempotence": True, "message.timeout.ms": WAIT_S * 500}
        send(confluent_kafka.Producer({**settings, **limit}))

    def group() -> None:
        own = {"group.id": ORDERS["Group"], "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**settings, **own})
        consumer.subscribe([topic])
        found, deadline = 0, time.monotonic() + WAIT_S
        try:
            while found < count:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{found} records came")
                message = consumer.poll(0.5)
                if message is not None and message.error() is not None:
                    raise confluent_kafka.KafkaException(message.error())
                found += message is not None
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def transaction() -> None:
        own = {"transactional.id": ORDERS["TransactionalID"]}
        producer = confluent_kafka.Producer({**settings, **own})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        send(producer)
        producer.commit_transaction(WAIT_S)

    def admin() -> None:
        client = confluent_kafka.admin.AdminClient(settings)
        wanted = confluent_kafka.admin.NewTopic(ORDERS["NewTopic"], 1, 1)
        (future,) = client.create_topics([wanted]).values()
        future.result(WAIT_S)

    return {"produce": produce, "group": group, "transaction": transaction, "admin": admin}


def kafka_python(settings: dict[str, Any]) -> Calls:
    """kafka-python."""
    topic, count = ORDERS["Topic"], ORDERS["Count"]

    def send(producer: Any) -> None:
        futures = [producer.send(topic, str(number).encode()) for number in range(count)]
        for future in futures:
            future.get(WAIT_S)

    def produce() -> None:
        producer = kafka.KafkaProducer(**settings, enable_idempotence=True)
        try:
            send(producer)
        finally:
            producer.close(timeout=1)

    def group() -> None:
        own = {"group_id": ORDERS["Group"], "auto_offset_reset": "earliest"}
        consumer = kafka.KafkaConsumer(topic, **settings, **own)
        try:
            found, deadline = 0, time.monotonic() + WAIT_S
            while found < count:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{found} records came")
                found += sum(map(len, consumer.poll(500).values()))
            consumer.commit()
        finally:
            consumer.close(autocommit=False)

    def transaction() -> None:
        own = {"transactional_id": ORDERS["TransactionalID"], "enable_idempotence": True}
        producer = kafka.KafkaProducer(**settings, **own)
        try:
            producer.init_transactions()
            producer.begin_transaction()
            send(producer)
            producer.commit_transaction()
        finally:
            producer.close(timeout=1)

    def admin() -> None:
        client = kafka.admin.KafkaAdminClient(**settings)
        client.create_topics([kafka.admin.NewTopic(ORDERS["NewTopic"], 1, 1)])

    return {"produce": produce, "group": group, "transaction": transaction, "admin": admin}


def aio(settings: dict[str, Any]) -> Calls:
    """aiokafka, whose calls are coroutines here."""
    topic, count = ORDERS["Topic"], ORDERS["Count"]

    async def produce() -> None:
        async with aiokafka.AIOKafkaProducer(**_of_aiokafka(settings)) as producer:
            for number in range(count):
                await producer.send_and_wait(topic, str(number).encode())

    async def group() -> None:
        own = {"group_id": ORDERS["Group"], "auto_offset_reset": "earliest"}
        reader = aiokafka.AIOKafkaConsumer(topic, **_of_aiokafka(settings), **own)
        async with reader:
            for _ in range(count):
                await reader.getone()
            await reader.commit()

    async def transaction() -> None:
        own = {"transactional_id": ORDERS["TransactionalID"]}
        async with (
            aiokafka.AIOKafkaProducer(**_of_aiokafka(settings), **own) as producer,
            producer.transaction(),
        ):
            for number in range(count):
                await producer.send_and_wait(topic, str(number).encode())

    async def admin() -> None:
        client = aiokafka.admin.AIOKafkaAdminClient(**_of_aiokafka(settings))
        await client.start()
        try:
            wanted = aiokafka.admin.NewTopic(ORDERS["NewTopic"], 1, 1)
            answer = await client.create_topics([wanted])
            for _topic, code, *text in answer.topic_errors:
                if code:
                    raise aiokafka.errors.for_code(code)(*text)
        finally:
            await client.close()

    def blocking(call: Callable[[], Any]) -> Callable[[], object]:
        return lambda: asyncio.run(asyncio.wait_for(call(), WAIT_S))

    calls = {"produce": produce, "group": group, "transaction": transaction, "admin": admin}
    return {name: blocking(call) for name, call in calls.items()}


def _of_aiokafka(settings: dict[str, Any]) -> dict[str, Any]:
    """With the context that cannot be written as JSON."""
    import ssl

    others = {name: value for name, value in settings.items() if name != "ssl_cafile"}
    return {**others, "ssl_context": ssl.create_default_context(cafile=settings["ssl_cafile"])}


def main() -> None:
    """Make every call and write the outcomes."""
    outcomes = {}
    calls = {"confluent": confluent, "kafka_python": kafka_python, "aio": aio}[sys.argv[1]]
    made = calls(ORDERS["Settings"])
    for name in ORDERS["Calls"]:
        try:
            made[name]()
            outcomes[name] = "ok"
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    main()

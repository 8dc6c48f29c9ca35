"""Transactions step by step, confluent-kafka (librdkafka)."""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.interop.programs.python.steps import Step, run

WAIT_S = 90
PRODUCERS: dict[str, Any] = {}


def start(step: Step) -> dict[str, Any]:
    producer = Producer(
        {
            "bootstrap.servers": sys.argv[1],
            "transactional.id": step["transactional_id"],
            "transaction.timeout.ms": step["timeout_ms"],
            "linger.ms": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    PRODUCERS[step["producer"]] = producer
    return {}


def send(step: Step) -> dict[str, Any]:
    producer = PRODUCERS[step["producer"]]
    producer.begin_transaction()
    for value in step["values"]:
        producer.produce(step["topic"], value.encode(), partition=0)
    return {"left": producer.flush(WAIT_S)}


def offsets(step: Step) -> dict[str, Any]:
    reader = Consumer({"bootstrap.servers": sys.argv[1], "group.id": step["group"]})
    PRODUCERS[step["producer"]].send_offsets_to_transaction(
        [TopicPartition(step["topic"], 0, step["offset"])],
        reader.consumer_group_metadata(),
        WAIT_S,
    )
    reader.close()
    return {}


def end(step: Step) -> dict[str, Any]:
    producer = PRODUCERS[step["producer"]]
    try:
        (producer.commit_transaction if step["commits"] else producer.abort_transaction)(WAIT_S)
    except KafkaException as error:
        return {"refused": str(error)}
    return {}


def read(step: Step) -> dict[str, Any]:
    reader = Consumer(
        {
            "bootstrap.servers": sys.argv[1],
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": step["isolation"],
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition(step["topic"], 0, 0)])
    values: list[str] = []
    try:
        while True:
            message = reader.poll(WAIT_S)
            if message is None:
                return {"error": "the partition does not end"}
            error: Any = message.error()
            if error is None:
                values.append(message.value().decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                return {"values": values}
    finally:
        reader.close()


run({"start": start, "send": send, "offsets": offsets, "end": end, "read": read})

"""Transactions step by step, kafka-python 3."""

from __future__ import annotations

import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.interop.programs.python.steps import Step, run

PRODUCERS: dict[str, Any] = {}


def start(step: Step) -> dict[str, Any]:
    producer: Any = KafkaProducer(
        bootstrap_servers=sys.argv[1],
        transactional_id=step["transactional_id"],
        transaction_timeout_ms=step["timeout_ms"],
    )
    producer.init_transactions()
    PRODUCERS[step["producer"]] = producer
    return {}


def send(step: Step) -> dict[str, Any]:
    producer = PRODUCERS[step["producer"]]
    producer.begin_transaction()
    for value in step["values"]:
        producer.send(step["topic"], value.encode(), partition=0)
    producer.flush(30)
    return {"left": 0}


def offsets(step: Step) -> dict[str, Any]:
    ends = {TopicPartition(step["topic"], 0): OffsetAndMetadata(step["offset"], "", -1)}
    PRODUCERS[step["producer"]].send_offsets_to_transaction(ends, step["group"])
    return {}


def end(step: Step) -> dict[str, Any]:
    producer = PRODUCERS[step["producer"]]
    try:
        (producer.commit_transaction if step["commits"] else producer.abort_transaction)()
    except KafkaError as error:
        return {"refused": repr(error)}
    return {}


def read(step: Step) -> dict[str, Any]:
    """Read until three polls in a row return nothing: the client has no end-of-partition event."""
    reader: Any = KafkaConsumer(
        bootstrap_servers=sys.argv[1],
        enable_auto_commit=False,
        isolation_level=step["isolation"],
    )
    where = TopicPartition(step["topic"], 0)
    reader.assign([where])
    reader.seek(where, 0)
    values: list[str] = []
    idle = 0
    while idle < 3:
        found = [one for several in reader.poll(timeout_ms=300).values() for one in several]
        values += [one.value.decode() for one in found]
        idle = 0 if found else idle + 1
    reader.close()
    return {"values": values}


run({"start": start, "send": send, "offsets": offsets, "end": end, "read": read})

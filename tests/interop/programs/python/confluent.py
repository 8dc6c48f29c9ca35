"""confluent-kafka (librdkafka): steps on standard input, results on standard output."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.interop.programs.python.steps import Step, headers_of, result_record, run, unpack

ADDRESS = {"bootstrap.servers": sys.argv[1]} if len(sys.argv) > 1 else {}
WAIT_S = 90


def hello(_step: Step) -> dict[str, Any]:
    return {"client": "confluent_kafka", "version": confluent_kafka.__version__}


def produce(step: Step) -> dict[str, Any]:
    errors: list[str] = []
    producer = Producer(
        ADDRESS
        | {
            "linger.ms": 20,
            "compression.type": step["codec"],
            "acks": step["acks"],
            "enable.idempotence": step["idempotent"],
        }
    )
    for record in step["records"]:
        producer.produce(
            step["topic"],
            key=unpack(record["key"]),
            value=unpack(record["value"]),
            headers=headers_of(record),
            timestamp=record["timestamp"],
            partition=0,
            on_delivery=lambda error, _message: errors.append(str(error)) if error else None,
        )
    left = producer.flush(WAIT_S)
    return {"error": f"{left} not delivered, {errors[:3]}"} if left or errors else {}


def consumer() -> Any:
    return Consumer(ADDRESS | {"group.id": "none", "enable.auto.commit": False, "check.crcs": True})


def consume(step: Step) -> dict[str, Any]:
    found: list[Any] = []
    reader = consumer()
    reader.assign([TopicPartition(step["topic"], 0, step["offset"])])
    while len(found) < step["count"]:
        batch = reader.consume(step["count"] - len(found), timeout=WAIT_S)
        if not batch or batch[-1].error():
            return {"error": f"{len(found)} read, then {batch and batch[-1].error()}"}
        found += batch
    reader.close()
    return {
        "records": [
            result_record(m.offset(), m.timestamp()[1], (m.key(), m.value()), m.headers() or [])
            for m in found
        ]
    }


def offsets(step: Step) -> dict[str, Any]:
    reader = consumer()
    first, last = reader.get_watermark_offsets(TopicPartition(step["topic"], 0), timeout=WAIT_S)
    wanted = [TopicPartition(step["topic"], 0, at) for at in step["at"]]
    # One at a time: the list form wants distinct partitions.
    found = [reader.offsets_for_times([one], timeout=WAIT_S)[0].offset for one in wanted]
    reader.close()
    return {"first": first, "last": last, "offsets": found}


def settle(futures: dict[Any, Any]) -> Any:
    """Wait for every result and return the last, which is the only one here."""
    return [future.result(WAIT_S) for future in futures.values()][-1]


@cache
def admin() -> Any:
    """One for all steps; futures end with the client that made them."""
    return AdminClient(ADDRESS)


def create(step: Step) -> dict[str, Any]:
    wanted = NewTopic(step["topic"], step["partitions"], 1, config=step["config"])
    settle(admin().create_topics([wanted]))
    return {}


def delete(step: Step) -> dict[str, Any]:
    settle(admin().delete_topics([step["topic"]]))
    return {}


def topics(_step: Step) -> dict[str, Any]:
    return {"topics": sorted(admin().list_topics(timeout=WAIT_S).topics)}


def describe(step: Step) -> dict[str, Any]:
    found = admin().list_topics(step["topic"], timeout=WAIT_S).topics[step["topic"]]
    return {"partitions": len(found.partitions)}


def grow(step: Step) -> dict[str, Any]:
    settle(admin().create_partitions([NewPartitions(step["topic"], step["partitions"])]))
    return {}


def describe_configs(step: Step) -> dict[str, Any]:
    found = settle(admin().describe_configs([resource_of(step)]))
    return {"config": {name: entry.value for name, entry in found.items()}}


def resource_of(step: Step, **more: Any) -> Any:
    """The topic, or the broker where the step names one."""
    if "broker" in step:
        return ConfigResource(ResourceType.BROKER, str(step["broker"]), **more)
    return ConfigResource(ResourceType.TOPIC, step["topic"], **more)


def alter_configs(step: Step) -> dict[str, Any]:
    settle(admin().alter_configs([resource_of(step, set_config=step["config"])]))
    return {}


def incremental_alter_configs(step: Step) -> dict[str, Any]:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in step["config"].items()
    ]
    change = resource_of(step, incremental_configs=entries)
    settle(admin().incremental_alter_configs([change]))
    return {}


def delete_records(step: Step) -> dict[str, Any]:
    where = TopicPartition(step["topic"], 0, step["before"])
    return {"low_watermark": settle(admin().delete_records([where])).low_watermark}


if __name__ == "__main__":
    run(
        {
            "hello": hello,
            "produce": produce,
            "consume": consume,
            "offsets": offsets,
            "create": create,
            "delete": delete,
            "topics": topics,
            "describe": describe,
            "grow": grow,
            "describe_configs": describe_configs,
            "alter_configs": alter_configs,
            "incremental_alter_configs": incremental_alter_configs,
            "delete_records": delete_records,
        }
    )

"""kafka-python, 2.0.2 and 3.x: steps on standard input, results on standard output."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

from tests.interop.programs.python.steps import Step, headers_of, result_record, run, unpack

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else ""
IS_OLD = kafka.__version__.startswith("2.")
WAIT_S = 90


def hello(_step: Step) -> dict[str, Any]:
    return {"client": "kafka_python", "version": kafka.__version__}


def produce(step: Step) -> dict[str, Any]:
    settings = {} if IS_OLD else {"enable_idempotence": step["idempotent"]}
    producer = KafkaProducer(
        bootstrap_servers=ADDRESS,
        linger_ms=20,
        compression_type=None if step["codec"] == "none" else step["codec"],
        acks=step["acks"] if step["acks"] == "all" else int(step["acks"]),
        **settings,
    )
    futures = [
        producer.send(
            step["topic"],
            key=unpack(record["key"]),
            value=unpack(record["value"]),
            headers=headers_of(record),
            partition=0,
            timestamp_ms=record["timestamp"],
        )
        for record in step["records"]
    ]
    producer.flush(WAIT_S)
    for future in futures:
        future.get(WAIT_S)
    producer.close()
    return {}


def consumer() -> Any:
    return KafkaConsumer(
        bootstrap_servers=ADDRESS, enable_auto_commit=False, consumer_timeout_ms=WAIT_S * 1000
    )


def consume(step: Step) -> dict[str, Any]:
    reader, where = consumer(), TopicPartition(step["topic"], 0)
    reader.assign([where])
    reader.seek(where, step["offset"])
    found: list[Any] = []
    while len(found) < step["count"]:
        # The iterator ends by itself when nothing comes for a while.
        found.append(next(reader))
    reader.close()
    return {
        "records": [
            result_record(m.offset, m.timestamp, (m.key, m.value), m.headers) for m in found
        ]
    }


def offsets(step: Step) -> dict[str, Any]:
    reader, where = consumer(), TopicPartition(step["topic"], 0)
    first = reader.beginning_offsets([where])[where]
    last = reader.end_offsets([where])[where]
    found = [reader.offsets_for_times({where: at})[where] for at in step["at"]]
    reader.close()
    # This client has no offset to give where there is no record; librdkafka says -1, the end.
    return {"first": first, "last": last, "offsets": [-1 if f is None else f.offset for f in found]}


@cache
def admin() -> Any:
    """One for all steps; futures end with the client that made them."""
    return KafkaAdminClient(bootstrap_servers=ADDRESS)


def create(step: Step) -> dict[str, Any]:
    wanted = NewTopic(step["topic"], step["partitions"], 1, topic_configs=step["config"])
    admin().create_topics([wanted])
    return {}


def delete(step: Step) -> dict[str, Any]:
    admin().delete_topics([step["topic"]])
    return {}


def topics(_step: Step) -> dict[str, Any]:
    return {"topics": sorted(admin().list_topics())}


def describe(step: Step) -> dict[str, Any]:
    return {"partitions": len(admin().describe_topics([step["topic"]])[0]["partitions"])}


def grow(step: Step) -> dict[str, Any]:
    wanted: Any = step["partitions"]
    admin().create_partitions({step["topic"]: NewPartitions(wanted) if IS_OLD else wanted})
    return {}


def resource_of(step: Step, configs: Any = None) -> Any:
    """The topic, or the broker where the step names one."""
    if "broker" in step:
        return ConfigResource(ConfigResourceType.BROKER, str(step["broker"]), configs=configs)
    return ConfigResource(ConfigResourceType.TOPIC, step["topic"], configs=configs)


def describe_configs(step: Step) -> dict[str, Any]:
    wanted = [resource_of(step)]
    if IS_OLD:
        error_code, message, _type, _name, entries = (
            admin().describe_configs(wanted)[0].resources[0]
        )
        assert error_code == 0, message
        return {"config": {entry[0]: entry[1] for entry in entries}}
    found = admin().describe_configs(wanted, config_filter="all")
    (by_name,) = found.values()
    (entries,) = by_name.values()
    return {"config": {name: entry["value"] for name, entry in entries.items()}}


def alter_configs(step: Step) -> dict[str, Any]:
    change = [resource_of(step, step["config"])]
    if IS_OLD:
        error_code, message, *_ = admin().alter_configs(change).resources[0]
        assert error_code == 0, message
    else:
        admin().alter_configs(change, incremental=False)
    return {}


def incremental_alter_configs(step: Step) -> dict[str, Any]:
    admin().alter_configs([resource_of(step, step["config"])], incremental=True)
    return {}


def delete_records(step: Step) -> dict[str, Any]:
    where = TopicPartition(step["topic"], 0)
    result = admin().delete_records({where: step["before"]})[where]
    return {"low_watermark": result["low_watermark"]}


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

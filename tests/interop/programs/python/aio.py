"""aiokafka: steps on standard input, results on standard output."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import (
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.interop.programs.python.steps import Step, headers_of, result_record, run, unpack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else ""
WAIT_S = 90


async def hello(_step: Step) -> dict[str, Any]:
    return {"client": "aiokafka", "version": aiokafka.__version__}


async def produce(step: Step) -> dict[str, Any]:
    producer = AIOKafkaProducer(
        bootstrap_servers=ADDRESS,
        linger_ms=20,
        compression_type=None if step["codec"] == "none" else step["codec"],
        acks=step["acks"] if step["acks"] == "all" else int(step["acks"]),
        enable_idempotence=step["idempotent"],
    )
    await producer.start()
    futures = [
        await producer.send(
            step["topic"],
            key=unpack(record["key"]),
            value=unpack(record["value"]),
            headers=headers_of(record),
            partition=0,
            timestamp_ms=record["timestamp"],
        )
        for record in step["records"]
    ]
    await asyncio.wait_for(asyncio.gather(*futures), WAIT_S)
    await producer.stop()
    return {}


async def consumer() -> Any:
    reader = AIOKafkaConsumer(bootstrap_servers=ADDRESS, enable_auto_commit=False)
    await reader.start()
    return reader


async def consume(step: Step) -> dict[str, Any]:
    reader, where = await consumer(), TopicPartition(step["topic"], 0)
    reader.assign([where])
    reader.seek(where, step["offset"])
    found: list[Any] = []
    while len(found) < step["count"]:
        found.append(await asyncio.wait_for(reader.getone(), WAIT_S))
    await reader.stop()
    return {
        "records": [
            result_record(m.offset, m.timestamp, (m.key, m.value), list(m.headers)) for m in found
        ]
    }


async def offsets(step: Step) -> dict[str, Any]:
    reader, where = await consumer(), TopicPartition(step["topic"], 0)
    first = (await reader.beginning_offsets([where]))[where]
    last = (await reader.end_offsets([where]))[where]
    found = [(await reader.offsets_for_times({where: at}))[where] for at in step["at"]]
    await reader.stop()
    return {"first": first, "last": last, "offsets": [-1 if f is None else f.offset for f in found]}


async def with_admin(work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Do the work with an administrator's client and stop it."""
    admin = AIOKafkaAdminClient(bootstrap_servers=ADDRESS)
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


async def create(step: Step) -> dict[str, Any]:
    wanted = NewTopic(step["topic"], step["partitions"], 1, topic_configs=step["config"])
    response = await with_admin(lambda admin: admin.create_topics([wanted]))
    return {"error": str(response)} if response.topic_errors[0][1] else {}


async def delete(step: Step) -> dict[str, Any]:
    response = await with_admin(lambda admin: admin.delete_topics([step["topic"]]))
    return {"error": str(response)} if response.topic_error_codes[0][1] else {}


async def topics(_step: Step) -> dict[str, Any]:
    return {"topics": sorted(await with_admin(lambda admin: admin.list_topics()))}


async def describe(step: Step) -> dict[str, Any]:
    found = await with_admin(lambda admin: admin.describe_topics([step["topic"]]))
    return {"partitions": len(found[0]["partitions"])}


async def grow(step: Step) -> dict[str, Any]:
    wanted = {step["topic"]: NewPartitions(step["partitions"])}
    response = await with_admin(lambda admin: admin.create_partitions(wanted))
    return {"error": str(response)} if response.topic_errors[0][1] else {}


def resource_of(step: Step, configs: Any = None) -> Any:
    """The topic, or the broker where the step names one."""
    if "broker" in step:
        return ConfigResource(ConfigResourceType.BROKER, str(step["broker"]), configs=configs)
    return ConfigResource(ConfigResourceType.TOPIC, step["topic"], configs=configs)


async def describe_configs(step: Step) -> dict[str, Any]:
    response = (await with_admin(lambda admin: admin.describe_configs([resource_of(step)])))[0]
    error_code, message, _type, _name, entries = response.resources[0]
    assert error_code == 0, message
    return {"config": {entry[0]: entry[1] for entry in entries}}


async def alter_configs(step: Step) -> dict[str, Any]:
    change = [resource_of(step, step["config"])]
    response = (await with_admin(lambda admin: admin.alter_configs(change)))[0]
    error_code, message, *_ = response.resources[0]
    assert error_code == 0, message
    return {}


async def delete_records(step: Step) -> dict[str, Any]:
    where = TopicPartition(step["topic"], 0)
    wanted = {where: RecordsToDelete(before_offset=step["before"])}
    return {"low_watermark": (await with_admin(lambda admin: admin.delete_records(wanted)))[where]}


def main() -> None:
    """One event loop for all steps."""
    loop = asyncio.new_event_loop()
    steps = (
        hello,
        produce,
        consume,
        offsets,
        create,
        delete,
        topics,
        describe,
        grow,
        describe_configs,
        alter_configs,
        delete_records,
    )

    def served(function: Any) -> Callable[[Step], dict[str, Any]]:
        return lambda step: loop.run_until_complete(function(step))

    run({function.__name__: served(function) for function in steps})


if __name__ == "__main__":
    main()

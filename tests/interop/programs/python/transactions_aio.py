"""Transactions step by step, aiokafka."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.interop.programs.python.steps import Step, run

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCERS: dict[str, Any] = {}


async def start(step: Step) -> dict[str, Any]:
    producer = AIOKafkaProducer(
        bootstrap_servers=sys.argv[1],
        transactional_id=step["transactional_id"],
        transaction_timeout_ms=step["timeout_ms"],
    )
    await producer.start()
    PRODUCERS[step["producer"]] = producer
    return {}


async def send(step: Step) -> dict[str, Any]:
    producer = PRODUCERS[step["producer"]]
    await producer.begin_transaction()
    for value in step["values"]:
        await producer.send_and_wait(step["topic"], value.encode(), partition=0)
    return {"left": 0}


async def offsets(step: Step) -> dict[str, Any]:
    ends = {TopicPartition(step["topic"], 0): step["offset"]}
    await PRODUCERS[step["producer"]].send_offsets_to_transaction(ends, step["group"])
    return {}


async def end(step: Step) -> dict[str, Any]:
    producer = PRODUCERS[step["producer"]]
    try:
        await (producer.commit_transaction if step["commits"] else producer.abort_transaction)()
    except KafkaError as error:
        return {"refused": repr(error)}
    return {}


async def read(step: Step) -> dict[str, Any]:
    """Read until three polls in a row return nothing: the client has no end-of-partition event."""
    reader = AIOKafkaConsumer(
        bootstrap_servers=sys.argv[1],
        enable_auto_commit=False,
        isolation_level=step["isolation"],
    )
    await reader.start()
    where = TopicPartition(step["topic"], 0)
    reader.assign([where])
    reader.seek(where, 0)
    values: list[str] = []
    idle = 0
    while idle < 3:
        several = (await reader.getmany(timeout_ms=300)).values()
        found = [one for records in several for one in records]
        values += [one.value.decode() for one in found]
        idle = 0 if found else idle + 1
    await reader.stop()
    return {"values": values}


def main() -> None:
    """One event loop for all steps."""
    loop = asyncio.new_event_loop()

    def served(function: Any) -> Callable[[Step], dict[str, Any]]:
        return lambda step: loop.run_until_complete(function(step))

    run({one.__name__: served(one) for one in (start, send, offsets, end, read)})


main()

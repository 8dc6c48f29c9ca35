"""Requests that meet each other half-way: a topic that goes while it is written and flushed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.broker.testing.memory_disk import MemoryDisk
from ottla.client.real import RealClock
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.broker.api.requests import TOPIC, batch, create, produce, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

SLOW = DiskFault(frozenset({"fsync"}), 0, f"/{TOPIC}-0/", delay_ms=100)


async def deleted(client: RawClient, name: str = TOPIC) -> ErrorCode:
    """Delete a topic and return the code."""
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
    response = await client.call(4, request)
    return ErrorCode(response.responses[0].error_code)


async def test_a_topic_that_is_deleted_during_a_flush_takes_nothing_else_along() -> None:
    """The flush that waited behind the deletion looked for renamed files, found none, and took
    the directory of all topics for broken."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan, RealClock())
    async with running_broker(disk=disk) as running, running.connect() as client:
        await create(client, flush_messages="1")
        await create(client, "other")
        plan.add(SLOW)
        partition = running.broker.partitions.find(TOPIC, 0)
        assert partition is not None
        async with running.connect() as producer:
            # The first flush begins; what comes after it needs a second one.
            for _ in range(2):
                producer.send(9, produce(batch(b"x"), acks=1))
                while not partition.log.lock.locked():
                    await asyncio.sleep(0)
            while partition.log.log_end_offset < 2:
                await asyncio.sleep(0)

            assert await deleted(client) == ErrorCode.NONE
            answers = [await producer.answer(9, produce(b"")) for _ in range(2)]
        code = answers[1].responses[0].partition_responses[0].error_code

        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await produced(client, batch(b"y"), topic="other")).error_code == ErrorCode.NONE
        assert not running.broker.has_failed

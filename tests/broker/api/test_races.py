"""Requests that meet each other half-way: a topic that goes while it is written and flushed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.clock import RealClock
from tests.broker.support.requests import TOPIC, batch, create, produce, produced
from tests.support.in_process import RunningBroker, running_broker

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

        assert code == ErrorCode.REQUEST_TIMED_OUT
        assert (await produced(client, batch(b"y"), topic="other")).error_code == ErrorCode.NONE
        assert not running.broker.has_failed


async def waiting_requests(running: RunningBroker, count: int) -> None:
    """Waits until that many requests wait for the cluster."""
    async with asyncio.timeout(60):
        while (
            sum(name.startswith("api ") for name in running.broker.parts.shared.tasks.names) < count
        ):
            await asyncio.sleep(0.005)


async def test_an_id_never_deletes_the_next_topic_of_that_name() -> None:
    """C-22: while a deletion by id waits for its turn, the topic goes and another one comes. The
    client meant the first one."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan, RealClock())
    new = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    requests: dict[int, Any] = {
        5: DeleteTopicsRequest(topic_names=[TOPIC]),
        7: CreateTopicsRequest(topics=[new]),
    }
    async with running_broker(disk=disk) as running, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(running.connect()) for _ in range(3)]
        made = await create(clients[0])
        requests[6] = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=made.topic_id)])
        plan.add(DiskFault(frozenset({"fsync"}), 0, "store.journal", delay_ms=1_000))
        for number, version in enumerate((5, 7, 6)):
            requests[version].timeout_ms = 60_000
            clients[number].send(version, requests[version])
            await waiting_requests(running, number + 1)
        plan.clear()

        await clients[0].answer(5, requests[5])
        again = (await clients[1].answer(7, requests[7])).topics[0]
        refused = (await clients[2].answer(6, requests[6])).responses[0]

        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert running.broker.metadata.topic_name(again.topic_id) == TOPIC


async def test_waiting_for_the_cluster_holds_up_no_other_request() -> None:
    """One handler, one slow metadata store, eight clients that create topics: a ninth produces."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan, RealClock())
    one_handler = {"num.io.threads": "1"}
    async with running_broker(one_handler, disk) as running, running.connect() as client:
        await create(client)
        plan.add(DiskFault(frozenset({"fsync"}), 0, "metadata-store", delay_ms=3_000))
        async with AsyncExitStack() as stack:
            for number in range(8):
                other = await stack.enter_async_context(running.connect())
                wanted = [MetadataRequestTopic(name=f"auto-{number}")]
                other.send(9, MetadataRequest(topics=wanted))
            await asyncio.sleep(0.05)
            started = asyncio.get_running_loop().time()
            answer = await produced(client, batch(b"x"))
            spent_s = asyncio.get_running_loop().time() - started
            plan.clear()

        assert answer.base_offset == 0
        assert spent_s < 2.5

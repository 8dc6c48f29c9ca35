"""What DeleteRecords has answered is true of every replica that may lead next (hazard S-19)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.client.producer import Producer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.broker.support.requests import batch, created_meanwhile, fetched, produced
from tests.broker.test_replication import TOPIC, make_topic
from tests.support.cluster import running_cluster
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from tests.broker.support.brokers import Brokers

RECORDS = 10


async def fill(brokers: Brokers, **configs: str) -> None:
    """A topic whose replicas all have the same records."""
    await make_topic(brokers, 1, **configs)
    async with Producer(",".join(brokers.bootstrap)) as producer:
        for number in range(RECORDS):
            await (await producer.send(TOPIC, b"%d" % number, partition=0))
    await brokers.until_in_sync(TOPIC, 3)
    await brokers.until_equal(TOPIC)


async def delete_before(
    brokers: Brokers, offset: int, timeout_ms: int = 30_000
) -> DeleteRecordsPartitionResult:
    """Ask the leader, and return its answer."""
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [wanted])], timeout_ms)
    address = brokers.alive[brokers.leader(TOPIC)].address
    async with RawClient(address.host, address.port) as client:
        answer = await client.call(2, request)
    result: DeleteRecordsPartitionResult = answer.topics[0].partitions[0]
    return result


async def test_they_are_gone_from_every_replica_that_may_lead_next(brokers: Brokers) -> None:
    """The leader dies right after its answer; its successor must not show them again."""
    await fill(brokers)
    leader = brokers.leader(TOPIC)

    answer = await delete_before(brokers, 7)
    starts = {one: brokers.partition(one, TOPIC).log_start_offset for one in brokers.alive}
    await brokers.kill(leader)
    await brokers.until(lambda: brokers.leader(TOPIC) not in (-1, leader))

    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 7)
    assert starts == {1: 7, 2: 7, 3: 7}
    assert brokers.partition(brokers.leader(TOPIC), TOPIC).log_start_offset == 7


async def test_who_is_in_sync_and_does_not_delete_them_is_waited_for(brokers: Brokers) -> None:
    """Its log may be the next leader's, so nothing is promised before; asking again is enough."""
    await fill(brokers)
    held = next(one for one in brokers.alive if one != brokers.leader(TOPIC))
    # As while its log is being cut: nothing of what the leader says can be done.
    brokers.partition(held, TOPIC).is_open = False

    early = await delete_before(brokers, 7, timeout_ms=200)
    brokers.partition(held, TOPIC).is_open = True
    late = await delete_before(brokers, 7)

    assert (early.error_code, early.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert (late.error_code, late.low_watermark) == (ErrorCode.NONE, 7)
    assert brokers.partition(held, TOPIC).log_start_offset == 7


async def test_who_is_not_in_sync_but_may_lead_is_waited_for(brokers: Brokers) -> None:
    """KIP-966: with the ISR below its minimum, the replica that left it last may still be
    elected."""
    await fill(brokers, **{"min.insync.replicas": "2"})
    leader = brokers.leader(TOPIC)
    gone = [one for one in brokers.alive if one != leader]
    for one in gone:
        await brokers.kill(one)
    replica = brokers.partition(leader, TOPIC).replica
    await brokers.until(lambda: replica.leading is not None and replica.leading.is_alone)

    early = await delete_before(brokers, 7, timeout_ms=200)
    for one in gone:
        await brokers.start_one(one)
    await brokers.until_in_sync(TOPIC, 3)
    late = await delete_before(brokers, 7)

    assert (early.error_code, early.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert (late.error_code, late.low_watermark) == (ErrorCode.NONE, 7)
    assert {brokers.partition(one, TOPIC).log_start_offset for one in brokers.alive} == {7}


async def test_who_has_left_the_cluster_is_not_waited_for(brokers: Brokers) -> None:
    """With enough others in sync it may not lead before it has caught up, which brings the log
    start along."""
    await fill(brokers)
    gone = next(one for one in brokers.alive if one != brokers.leader(TOPIC))
    await brokers.kill(gone)

    answer = await delete_before(brokers, 7)
    while answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        # Leadership may move when the controller was the broker that was killed: clients ask again.
        answer = await delete_before(brokers, 7)

    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 7)


@pytest.mark.parametrize("per_batch", [1, 5])
async def test_a_new_replica_begins_where_its_leaders_log_begins(per_batch: int) -> None:
    """What was deleted before can be fetched from no replica: it must not be waited for."""
    async with running_cluster(2) as cluster:
        async with cluster.connect(1) as client:
            here = CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
            wanted = CreatableTopic("t", -1, -1, [here])
            await client.call(7, CreateTopicsRequest([wanted], timeout_ms=30_000))
            await created_meanwhile(client, "t")
            values = [b"%d" % number for number in range(RECORDS)]
            for number in range(0, RECORDS, per_batch):
                await produced(client, batch(*values[number : number + per_batch]))
            cut = DeleteRecordsPartition(partition_index=0, offset=7)
            topic = DeleteRecordsTopic("t", [cut])
            await client.call(2, DeleteRecordsRequest([topic], timeout_ms=30_000))
            moved = ReassignableTopic("t", [ReassignablePartition(0, [2])])
            request = AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=[moved])
            await client.call(0, request)
        async with asyncio.timeout(60):
            while cluster[2].metadata.image.topics["t"].partitions[0].replicas != (2,):
                await asyncio.sleep(0.02)
        async with cluster.connect(2) as client:
            assert (await fetched(client, 6)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            part = await fetched(client, 7)
            assert (part.error_code, part.high_watermark, part.log_start_offset) == (0, RECORDS, 7)

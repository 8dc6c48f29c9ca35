"""A position means the same message for ever, whatever happens to broker and log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.wire07 import ledger
from ottla.broker.wire07.positions import TOLD_BYTES_MAX
from ottla.broker.wire07.stored import PATH
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
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.broker.support.requests import batch, create, created_meanwhile, produced
from tests.broker.support.transactional import Producer, coordinator_of
from tests.broker.wire07.site import WITH_07, Site07, site_07
from tests.protocol.wire07.client_07 import EARLIEST, LATEST, Client07, message_07, read_07
from tests.support.cluster import running_cluster

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

# Each takes 21 bytes in 0.7.
VALUES = [b"message %03d" % number for number in range(60)]
SIZE = 21


async def _delete_before(client: RawClient, offset: int) -> None:
    cut = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="t", partitions=[cut])
    answer = await client.call(2, DeleteRecordsRequest(topics=[topic], timeout_ms=5_000))
    assert answer.topics[0].partitions[0].error_code == 0


async def _fill(client: RawClient) -> None:
    for number in range(0, len(VALUES), 3):
        await produced(client, batch(*VALUES[number : number + 3]))


async def _first(old: Client07, offset: int) -> bytes:
    error, messages = await old.fetch("t", offset)
    assert error == 0
    return read_07(messages)[0][0]


async def test_each_position_is_found_after_a_restart_and_after_retention() -> None:
    """Retention has removed what would have to be counted: anchors in the store know it."""
    disk = MemoryDisk()
    async with site_07(disk=disk) as site, site.connect() as today, site.connect_07() as old:
        await create(today, segment_bytes="250")
        await _fill(today)
        assert await old.offsets("t", LATEST) == (0, [SIZE * 60])
        _error, bases = await old.offsets("t", LATEST, 100)
        assert len(bases) > 5
        await _delete_before(today, 30)
        assert await old.offsets("t", EARLIEST) == (0, [SIZE * 30])
    async with site_07(disk=disk) as site, site.connect() as today, site.connect_07() as old:
        for number in range(30, 60):
            assert await _first(old, SIZE * number) == VALUES[number]
            assert (await old.fetch("t", SIZE * number + 1))[0] == 1
        assert (await old.fetch("t", SIZE * 29))[0] == 1
        await _delete_before(today, 45)
    async with site_07(disk=disk) as site, site.connect_07() as old:
        # The log's start is no anchor; there is one behind it.
        assert await _first(old, SIZE * 45) == VALUES[45]
        assert await old.offsets("t", EARLIEST) == (0, [SIZE * 45])
        assert await old.offsets("t", LATEST) == (0, [SIZE * 60])


async def test_an_offset_of_which_nothing_is_left_is_out_of_range() -> None:
    """The consumer starts anew, and does not take a later message for the one it wanted."""
    disk = MemoryDisk()
    async with site_07(disk=disk) as site, site.connect() as today, site.connect_07() as old:
        await create(today, segment_bytes="250")
        await produced(today, batch(*VALUES[:3]))
        assert await old.offsets("t", LATEST) == (0, [SIZE * 3])
        for number in range(3, 60, 3):
            await produced(today, batch(*VALUES[number : number + 3]))
        await _delete_before(today, 50)
    async with site_07(disk=disk) as site, site.connect_07() as old:
        for number in range(61):
            assert (await old.fetch("t", SIZE * number))[0] == 1
        _error, (start,) = await old.offsets("t", EARLIEST)
        assert start == TOLD_BYTES_MAX
        assert await old.consume("t", start) == (VALUES[50:], start + SIZE * 10)
    async with site_07(disk=disk) as site, site.connect_07() as old:
        assert await old.offsets("t", EARLIEST) == (0, [start])


async def test_records_deleted_inside_a_segment_change_no_position() -> None:
    """They are still in the file, so after a restart positions are counted from where it begins."""
    disk = MemoryDisk()
    async with site_07(disk=disk) as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await _fill(today)
        assert await old.consume("t", 0) == (VALUES, SIZE * 60)
        await _delete_before(today, 31)
    for start in (31, 47):
        async with site_07(disk=disk) as site, site.connect() as today, site.connect_07() as old:
            for number in (59, 48, 47):
                assert await _first(old, SIZE * number) == VALUES[number]
            assert (await old.fetch("t", SIZE * (start - 1)))[0] == 1
            assert await old.offsets("t", EARLIEST) == (0, [SIZE * start])
            await _delete_before(today, 47)


async def test_the_first_request_for_a_long_log_has_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client of 0.7 gives up after half a minute; what was counted is not counted again."""
    monkeypatch.setattr(ledger, "MEMORY_STEP_BYTES", 1)
    monkeypatch.setattr(ledger, "_REGION_BYTES", 200)
    monkeypatch.setattr(ledger, "_REGIONS_MAX", 6)
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await _fill(today)
        answers = [await old.offsets("t", LATEST)]
        while answers[-1][0]:
            answers.append(await old.offsets("t", LATEST))
        assert answers[:-1] == [(-1, [])] * (len(answers) - 1)
        assert 2 < len(answers) < 8
        assert answers[-1] == (0, [SIZE * 60])


async def test_where_a_consumer_is_keeps_positions_together() -> None:
    """Records are deleted in the middle of a segment while the consumer waits at the end."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await produced(today, batch(*VALUES))
        assert await old.consume("t", 0) == (VALUES, SIZE * 60)
        await _delete_before(today, 50)
        assert await old.offsets("t", EARLIEST) == (0, [SIZE * 50])
        assert await _first(old, SIZE * 55) == VALUES[55]
        await _delete_before(today, 60)
        assert await old.fetch("t", SIZE * 60) == (0, b"")


async def test_a_topic_made_again_begins_anew() -> None:
    """Positions of the deleted one mean nothing in it."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await produced(today, batch(*VALUES))
        await _delete_before(today, 30)
        assert await old.offsets("t", EARLIEST) == (0, [0])
        await today.call(5, DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000))
        await create(today)
        await created_meanwhile(today, "t")
        await produced(today, batch(b"new"))
        assert await old.consume("t", 0) == ([b"new"], 13)


async def test_markers_of_transactions_take_no_bytes() -> None:
    """A consumer of 0.7 passes them without knowing of them, also at the end."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await coordinator_of(today)
        producer = await Producer(today).init()
        for number in range(3):
            await producer.add(0)
            await producer.produce(b"%d" % number)
            await producer.end(committed=True)
        assert await old.consume("t", 0) == ([b"0", b"1", b"2"], 33)
        assert await old.offsets("t", LATEST) == (0, [33])
        await produced(today, batch(b"3"))
        assert await old.consume("t", 33) == ([b"3"], 44)


async def test_a_compacted_topic_is_refused() -> None:
    """Compaction removes bytes between positions that have been told."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today, cleanup_policy="compact")
        assert await old.fetch("t", 0) == (-1, b"")
        assert await old.offsets("t", LATEST) == (-1, [])


async def test_each_broker_counts_its_own_partitions() -> None:
    """Index 0 is the first partition whose first replica is that broker, as is announced."""
    async with running_cluster(2, WITH_07) as cluster:
        async with cluster.connect(1) as today:
            await _create_on(today, 2, 1)
        for number, node_id in enumerate((2, 1)):
            async with Site07(cluster[node_id]).connect_07() as old:
                old.produce("t", message_07(b"%d" % number))
                assert await _first(old, 0) == b"%d" % number
                assert (await old.fetch("t", 0, partition=1))[0] == 3


async def test_another_leader_serves_the_same_positions() -> None:
    """What the new leader would have to count is deleted: it knows the old leader's anchors."""
    async with running_cluster(2, {**WITH_07, "log.segment.bytes": "250"}) as cluster:
        async with cluster.connect(1) as today, Site07(cluster[1]).connect_07() as old:
            await _create_on(today, 1)
            await _fill(today)
            assert await old.consume("t", 0) == (VALUES, SIZE * 60)
            moved = ReassignablePartition(partition_index=0, replicas=[2])
            topic = ReassignableTopic(name="t", partitions=[moved])
            request = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=5_000)
            answer = await today.call(0, request)
            assert answer.responses[0].partitions[0].error_code == 0
        async with asyncio.timeout(60):
            while cluster[2].metadata.image.topics["t"].partitions[0].replicas != (2,):
                await asyncio.sleep(0.02)
        async with cluster.connect(2) as today, Site07(cluster[2]).connect_07() as old:
            await _delete_before(today, 30)
            assert await old.offsets("t", EARLIEST) == (0, [SIZE * 30])
            assert await _first(old, SIZE * 40) == VALUES[40]
            assert await old.offsets("t", LATEST) == (0, [SIZE * 60])


async def test_a_new_leader_sends_no_consumer_away() -> None:
    """Until its followers have fetched, it does not know that what consumers have read is
    committed: their positions are not out of range, there is only no more to read yet."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await produced(today, batch(*VALUES))
        assert await old.consume("t", 0) == (VALUES, SIZE * 60)
        partition = site.broker.partitions.find("t", 0)
        assert partition is not None
        replica = partition.replica
        assert replica.leading is not None
        replica.leading.epoch_start_offset = 60
        replica.high_watermark, known = 30, replica.high_watermark
        assert replica.check_offsets_known() is not ErrorCode.NONE
        async with site.connect_07() as other:
            # What the ledger remembers must not be what answers.
            for position in (SIZE * 60, SIZE * 59, SIZE * 10):
                assert await other.fetch("t", position) == (0, b"")
        replica.high_watermark = known
        assert await _first(old, SIZE * 59) == VALUES[59]
        assert (await old.fetch("t", SIZE * 59 + 1))[0] == 1


@pytest.mark.parametrize("step", [1, 100, 1 << 30])
async def test_a_log_longer_than_a_step_is_found_anywhere(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anchors in memory and in the store shorten the way, and change nothing."""
    monkeypatch.setattr(ledger, "MEMORY_STEP_BYTES", step)
    monkeypatch.setattr(ledger, "STORE_STEP_BYTES", step)
    monkeypatch.setattr(ledger, "_REGION_BYTES", 200)
    monkeypatch.setattr(ledger, "_RECENT_MAX", 2)
    disk = MemoryDisk()
    async with site_07(disk=disk) as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await _fill(today)
        for number in reversed(range(60)):
            assert await _first(old, SIZE * number) == VALUES[number]
        session = site.broker.requests.services.session()
        data = (await session.get(f"{PATH}/t-0")).data
        assert (data.count(b"],[") > 10) == (step < 200)
    async with site_07(disk=disk) as site, site.connect_07() as old:
        found = await asyncio.gather(*[_at(site, SIZE * number) for number in range(60)])
        assert found == VALUES


async def _create_on(client: RawClient, *brokers: int) -> None:
    """A partition on each of these brokers."""
    assignments = [
        CreatableReplicaAssignment(partition_index=number, broker_ids=[node_id])
        for number, node_id in enumerate(brokers)
    ]
    wanted = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    await client.call(7, CreateTopicsRequest(topics=[wanted], timeout_ms=5_000))
    await created_meanwhile(client, "t")


async def _at(site: Site07, position: int) -> bytes:
    async with site.connect_07() as old:
        return await _first(old, position)

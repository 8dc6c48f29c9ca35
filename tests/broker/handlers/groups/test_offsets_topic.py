"""The topic of committed offsets in a broker: what cleaning leaves of it, and that positions are
answered without reading it."""

from __future__ import annotations

import asyncio
import errno
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.broker.coordinating.shards_loading import Loader
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.record import read_records
from ottla.wire.clock import RealClock
from tests.broker.support.groups import GROUP, commit, committed, coordinated, positions
from tests.broker.support.requests import create
from tests.broker.support.transactional import Producer, coordinator_of
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

COMMITS = 10_000
AT_ONCE = 500
ONE_EACH = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.delete.retention.ms": "0",
}


async def commit_often(client: RawClient, count: int) -> None:
    """The offsets 1 to ``count`` of one partition, one after the other."""
    for begin in range(0, count, AT_ONCE):
        for number in range(begin, begin + AT_ONCE):
            part = OffsetCommitRequestPartition(partition_index=0, committed_offset=number + 1)
            topics = [OffsetCommitRequestTopic(name="t", partitions=[part])]
            client.send(8, OffsetCommitRequest(group_id=GROUP, topics=topics))
        for _ in range(AT_ONCE):
            answer = await client.answer(8, OffsetCommitRequest(group_id=GROUP))
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def records_of(running: RunningBroker, topic: str) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key in the topic's only partition, oldest first."""
    partition = running.broker.partitions.find(topic, 0)
    assert partition is not None
    log, found = partition.log, defaultdict(list)
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20, log.log_end_offset, at_least_one=True)
        assert read.region is not None
        for batch in iterate_batches(read.region.read()):
            for record in () if batch.is_control else read_records(batch):
                found[record.key].append(record.value)
        offset = read.next_offset
    return found


async def clean(running: RunningBroker, topic: str) -> None:
    """Seal what there is, and clean it. What a key's last record deletes goes in the second run."""
    partition = running.broker.partitions.find(topic, 0)
    assert partition is not None
    if partition.log.log_end_offset > partition.log.active.base_offset:
        partition.log.roll(partition.log.log_end_offset, running.broker.ports.clock.now_ms())
    for _ in range(2):
        await running.broker.parts.cleaning.clean(partition)


@pytest.mark.requirement("GRP-06", "LOG-34")
async def test_of_ten_thousand_commits_cleaning_leaves_the_last_and_of_a_deleted_group_none() -> (
    None
):
    """The topic of a busy group would otherwise grow for ever."""
    async with running_broker(ONE_EACH) as running, running.connect() as client:
        await create(client)
        await coordinated(client)
        await commit_often(client, COMMITS)
        before = records_of(running, OFFSETS_TOPIC)
        await clean(running, OFFSETS_TOPIC)
        after = records_of(running, OFFSETS_TOPIC)
        position = await committed(client)
        deleted = await client.call(2, DeleteGroupsRequest([GROUP]))
        await clean(running, OFFSETS_TOPIC)
        left = records_of(running, OFFSETS_TOPIC)

    assert [len(values) for values in before.values()] == [COMMITS]
    assert after == {key: values[-1:] for key, values in before.items()}
    assert position == {("t", 0): COMMITS}
    assert deleted.results[0].error_code == ErrorCode.NONE
    assert {value for values in left.values() for value in values} <= {None}


@pytest.mark.requirement("LOG-34", "TXN-34", "TXN-59")
async def test_of_a_transactional_id_cleaning_leaves_the_last_state_and_then_none() -> None:
    """After the end of its transactions only the last state counts; an id that is not used any more
    is forgotten altogether."""
    settings = {
        **ONE_EACH,
        "transactional.id.expiration.ms": "300",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
    }
    async with running_broker(settings) as running, running.connect() as client:
        await create(client)
        await coordinator_of(client)
        producer = await Producer(client).init()
        for number in range(5):
            await producer.produce(b"%d" % number)
            await producer.end(committed=True)
            await producer.reaches("CompleteCommit")
        before = records_of(running, TRANSACTIONS_TOPIC)
        await clean(running, TRANSACTIONS_TOPIC)
        after = records_of(running, TRANSACTIONS_TOPIC)
        clock = RealClock()
        while next(iter(records_of(running, TRANSACTIONS_TOPIC).values()))[-1] is not None:
            await clock.sleep(20)
        forgotten = await producer.try_end(committed=True)
        await clean(running, TRANSACTIONS_TOPIC)
        left = records_of(running, TRANSACTIONS_TOPIC)

    ((key, values),) = before.items()
    states = [value for value in values if value is not None]
    assert len(states) > 10
    # On a busy machine the id may have expired meanwhile.
    assert after in ({key: states[-1:]}, {key: [states[-1], None]}, {key: [None]})
    assert forgotten == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert {value for values in left.values() for value in values} <= {None}


@pytest.mark.requirement("GRP-07")
async def test_positions_are_answered_while_the_topic_of_offsets_cannot_be_read() -> None:
    """They are in the coordinator's memory: a disk that is slow or broken delays no consumer."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan, RealClock())
    async with running_broker(ONE_EACH, disk) as running, running.connect() as client:
        await create(client, partitions=3)
        await coordinated(client)
        await commit(client, {("t", 0): 5, ("t", 2): 7})
        plan.add(DiskFault(frozenset({"pread"}), errno.EIO, OFFSETS_TOPIC))
        found = await committed(client)
        hits = plan.hits
        with pytest.raises(KafkaError, match="Input/output error"):
            records_of(running, OFFSETS_TOPIC)
        plan.clear()

    assert found == {("t", 0): 5, ("t", 2): 7}
    assert hits == 0


@pytest.mark.requirement("GRP-09")
async def test_while_a_coordinator_loads_it_asks_for_patience_and_then_knows_the_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer from a half read log would reset every consumer of the group."""
    disk = MemoryDisk()
    async with running_broker(ONE_EACH, disk) as running, running.connect() as client:
        await create(client)
        await coordinated(client)
        await commit(client, {("t", 0): 5})
    gate, read = asyncio.Event(), Loader._slice

    async def held(self: Loader, *arguments: Any) -> Any:
        await gate.wait()
        return await read(self, *arguments)

    monkeypatch.setattr(Loader, "_slice", held)
    async with running_broker(ONE_EACH, disk) as running, running.connect() as client:
        during = [(await positions(client)).error_code for _ in range(3)]
        gate.set()
        async with asyncio.timeout(60):
            while (await positions(client)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                await asyncio.sleep(0.01)

        assert during == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
        assert await committed(client) == {("t", 0): 5}

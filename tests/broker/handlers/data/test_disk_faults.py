"""A disk that fails under a running broker: who hears of it, and who must not."""

from __future__ import annotations

import asyncio
import errno
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.storage.checkpoints import read_file
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.clock import RealClock
from tests.broker.support.requests import batch, create, fetched, listed, produced
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_client import RawClient

TWO_DISKS = {"log.dirs": "/d1,/d2"}
COLD = DiskFault(frozenset({"is_resident"}), 0, ".log", delay_ms=1)


@asynccontextmanager
async def with_faults(
    settings: dict[str, str] | None = None,
) -> AsyncIterator[tuple[RunningBroker, RawClient, FaultPlan]]:
    """A broker, a connection to it, and the faults of its disk."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan, RealClock())
    async with running_broker(settings, disk) as running, running.connect() as client:
        yield running, client, plan


def path_of(running: RunningBroker, topic: str) -> str:
    """The data directory that a topic's only partition lies in."""
    partition = running.broker.partitions.find(topic, 0)
    assert partition is not None
    return partition.log.home.health.path


async def two_topics(running: RunningBroker, client: RawClient) -> tuple[str, str]:
    """One on a disk that will fail, one on the disk with the metadata, which will not."""
    for name in ("a", "b"):
        await create(client, name, segment_bytes="200")
        for _ in range(3):
            await produced(client, batch(b"x" * 100), topic=name)
    lost = "a" if path_of(running, "a") == "/d2" else "b"
    return lost, "b" if lost == "a" else "a"


@pytest.mark.parametrize("operation", ["modified_ms", "rename"])
async def test_retention_on_a_failing_disk_spares_the_other_disk(operation: str) -> None:
    """A chore that died of one disk's error stopped the broker with all the others."""
    async with with_faults(TWO_DISKS) as (running, client, plan):
        lost, kept = await two_topics(running, client)
        plan.add(DiskFault(frozenset({operation}), errno.EIO, "/d2/"))

        await running.broker.parts.housekeeping.apply_retention()

        assert (await produced(client, batch(b"y"), topic=kept)).error_code == ErrorCode.NONE
        code = (await produced(client, batch(b"y"), topic=lost)).error_code
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not running.broker.has_failed


async def test_a_cold_read_that_fails_is_answered_and_the_connection_stays() -> None:
    """A closed connection would have the consumer come back for the same records for ever."""
    async with with_faults(TWO_DISKS) as (running, client, plan):
        lost, kept = await two_topics(running, client)
        plan.add(COLD)
        # Finding the batch reads the file as well, but only its header.
        plan.add(DiskFault(frozenset({"pread"}), errno.EIO, f"/d2/{lost}-0/", after=1, times=1))

        found = await fetched(client, 0, topic=lost)

        assert (found.error_code, bytes(found.records)) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        assert (await fetched(client, 0, topic=kept)).error_code == ErrorCode.NONE
        code = (await produced(client, batch(b"y"), topic=lost)).error_code
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not running.broker.has_failed


async def delete(client: RawClient, name: str) -> None:
    """Delete a topic; the controller's part of it succeeds."""
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
    answer = await client.call(4, request)
    assert answer.responses[0].error_code == ErrorCode.NONE


async def test_a_full_disk_is_freed_by_deleting_topics() -> None:
    """S-11: the checkpoints that forget a topic cannot be written, but its records must go, and a
    topic of the same name must not inherit what the old checkpoints say."""
    async with with_faults() as (running, client, plan):
        await create(client, "t", file_delete_delay_ms="0")
        await produced(client, batch(b"x" * 100))
        logs = running.broker.partitions.logs
        await logs.checkpoint(running.broker.partitions.high_watermarks)
        plan.add(DiskFault(frozenset({"append", "create"}), errno.ENOSPC, "checkpoint"))

        await delete(client, "t")
        clock = running.broker.ports.clock
        while running.broker.partitions.find("t", 0) is not None:
            await clock.sleep(1)
        await logs.tidy(clock.now_ms() + 1)
        left = [name for name in await running.broker.ports.disk.scan("/data") if "t-0" in name]

        assert left == []
        plan.clear()
        await logs.tidy(clock.now_ms())
        await create(client, "t")
        assert (await produced(client, batch(b"y"))).base_offset == 0
        content = read_file(running.broker.ports.disk, "/data/replication-offset-checkpoint")
        assert content is None or b"t 0 1" not in content


async def test_a_partition_on_a_dead_disk_is_told_once_that_it_has_no_leader(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The controller repeated a role to the broker, thousands of times a second, because the
    broker refused it each time."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan, RealClock())
    async with running_broker(TWO_DISKS, disk) as running, running.connect() as client:
        lost, kept = await two_topics(running, client)
    plan.add(DiskFault(frozenset({"is_directory", "lock", "make_directory"}), errno.EIO, "/d2"))

    async with running_broker(TWO_DISKS, disk) as running, running.connect() as client:
        metadata = running.broker.metadata
        while metadata.leader_of(lost, 0)[0] != -1:
            await running.broker.ports.clock.sleep(1)
        for _ in range(50):
            assert (await produced(client, batch(b"y"), topic=kept)).error_code == ErrorCode.NONE

    told = [one for one in caplog.records if "cannot be served" in one.getMessage()]
    assert 1 <= len(told) <= 3


async def test_a_batch_whose_write_fails_is_refused_after_one_try() -> None:
    """A second try of the same request could only wear out a disk that fails."""
    async with with_faults() as (_running, client, plan):
        await create(client)
        await produced(client, batch(b"a"))
        plan.add(DiskFault(frozenset({"append"}), errno.ENOMEM, ".log", times=1))

        answers = [await produced(client, batch(b"b")) for _ in range(2)]

        assert [answer.error_code for answer in answers] == [
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.NONE,
        ]
        assert answers[1].base_offset == 1


async def test_without_the_store_a_producer_is_told_to_come_again() -> None:
    """Other codes make clients give up for good; this one they repeat until an id is there."""
    async with with_faults() as (_running, client, plan):
        plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, "metadata-store"))
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        refused = await client.call(4, request)
        plan.clear()
        given = await client.call(4, request)

    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert given.error_code == ErrorCode.NONE


async def copy_directory(disk: MemoryDisk, source: str, target: str) -> None:
    """As a disk that was taken out keeps it."""
    disk.make_directory(target)
    for name in await disk.scan(source):
        found = disk.open(f"{source}/{name}")
        disk.open(f"{target}/{name}", create=True).append([found.pread(found.size_bytes, 0)])


async def test_a_disk_that_comes_back_from_the_dead_does_not_win_over_what_followed() -> None:
    """It is named first in log.dirs, and has the log of the week before, with its producers."""
    disk = MemoryDisk()
    batches = [
        batch(b"x", producer_id=9, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1)
    ]
    for records in batches:
        async with running_broker(disk=disk) as running, running.connect() as client:
            await create(client)
            await produced(client, records)
        if records is batches[0]:
            await copy_directory(disk, "/data/t-0", "/back/t-0")

    # The metadata store lies in the first of the directories.
    await copy_directory(disk, "/data/metadata-store", "/back/metadata-store")
    both = {"log.dirs": "/back,/data"}
    async with running_broker(both, disk) as running, running.connect() as client:
        repeated = await produced(client, batches[1])
        following = await produced(client, batch(b"y"))

    assert (repeated.error_code, repeated.base_offset) == (ErrorCode.NONE, 1)
    assert following.base_offset == 2
    assert [name for name in await disk.scan("/back") if name.endswith("-stray")] != []


async def described(client: RawClient, name: str) -> tuple[int, int, list[int]]:
    """Error, leader and offline replicas of a topic's only partition, as clients see it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    answer = await client.call(9, request)
    part = answer.topics[0].partitions[0]
    return part.error_code, part.leader_id, part.offline_replicas


async def until_leader_is(running: RunningBroker, name: str, leader: int) -> None:
    """Wait for the controller."""
    async with asyncio.timeout(60):
        while running.broker.metadata.leader_of(name, 0)[0] != leader:
            await running.broker.ports.clock.sleep(1)


async def test_a_topic_made_on_a_full_disk_is_served_as_soon_as_there_is_room() -> None:
    """The topic used to stay without a leader until the broker was restarted."""
    async with with_faults() as (running, client, plan):
        plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, "partition.metadata"))
        made = await create(client)
        await until_leader_is(running, "t", -1)
        refused = await described(client, "t")
        plan.clear()
        await until_leader_is(running, "t", 1)

        assert made.error_code == ErrorCode.NONE
        assert refused == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
        assert await described(client, "t") == (ErrorCode.NONE, 1, [])
        assert (await produced(client, batch(b"x"))).base_offset == 0
        names = await running.broker.ports.disk.scan("/data")
        assert [name for name in names if "t-0" in name] == ["t-0"]


async def test_a_directory_that_fails_takes_its_partitions_offline_for_all_clients() -> None:
    """S-12: reads of a dying disk still work, so its broker stayed the leader and failed every
    write; now clients are told, in a larger cluster another replica leads, and the name is free."""
    async with with_faults(TWO_DISKS) as (running, client, plan), running.connect() as reader:
        lost, kept = await two_topics(running, client)
        waits = {"max_wait_ms": 60_000, "min_bytes": 1}
        parked = asyncio.create_task(fetched(reader, 3, topic=lost, **waits))
        while not running.broker.parts.shared.waiting.count:
            await running.broker.ports.clock.sleep(1)
        plan.add(DiskFault(frozenset({"append"}), errno.EIO, "/d2/"))

        first = await produced(client, batch(b"y"), topic=lost)
        async with asyncio.timeout(60):
            told = await parked
        await until_leader_is(running, lost, -1)
        answers = [
            (await produced(client, batch(b"y"), topic=lost)).error_code,
            (await fetched(client, 0, topic=lost)).error_code,
            (await listed(client, -1, topic=lost)).error_code,
        ]

        assert [first.error_code, told.error_code] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert answers == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
        assert await described(client, lost) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
        assert await described(client, kept) == (ErrorCode.NONE, 1, [])
        assert (await produced(client, batch(b"y"), topic=kept)).base_offset == 3
        await delete(client, lost)
        await create(client, lost)
        assert (await produced(client, batch(b"z"), topic=lost)).base_offset == 0
        assert path_of(running, lost) == "/d1"
        assert not running.broker.has_failed


@pytest.mark.parametrize("fault", [DiskFault(frozenset({"open"}), errno.EIO, ".txnindex"), None])
async def test_an_unreadable_list_of_aborted_transactions_is_an_answer(
    fault: DiskFault | None,
) -> None:
    """The consumer's connection was closed, with the answers about all other partitions."""
    async with with_faults(TWO_DISKS) as (running, client, plan):
        lost, kept = await two_topics(running, client)
        partition = running.broker.partitions.find(lost, 0)
        assert partition is not None
        partition.log.append_aborted(AbortedTransaction(9, 0, 2, 3))
        await produced(client, batch(b"x" * 100), topic=lost)
        if fault is not None:
            plan.add(fault)
        else:
            path = f"{partition.log.active.path.removesuffix('.log')}.txnindex"
            running.broker.ports.disk.open(path, create=True).append([b"spoiled"])

        found = await fetched(client, 3, topic=lost, isolation_level=1)

        assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await fetched(client, 0, topic=kept, isolation_level=1)).error_code == 0


async def test_a_checkpoint_knows_nothing_of_a_topic_that_was_made_anew_meanwhile() -> None:
    """The old one's high watermark would promise records that the new one never had."""
    async with with_faults(TWO_DISKS) as (running, client, plan):
        _, topic = await two_topics(running, client)
        if path_of(running, topic) == "/d1":
            topic = "a" if topic == "b" else "b"
        fault = DiskFault(frozenset({"fsync"}), 0, "/d1/log-start", delay_ms=300)
        plan.add(fault)
        logs = running.broker.partitions.logs
        saving = asyncio.create_task(logs.checkpoint(running.broker.partitions.high_watermarks))
        await asyncio.sleep(0)
        await delete(client, topic)
        await create(client, topic)
        is_early = not saving.done()
        await saving

        assert is_early
        assert path_of(running, topic) == "/d2"
        assert logs.high_watermark(TopicPartition(topic, 0)) == 0


async def test_a_failed_directory_is_told_of_once_and_not_by_each_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A thousand equal lines at every pass hide the one that says why."""
    async with with_faults(TWO_DISKS) as (running, client, plan):
        for number in range(12):
            await create(client, f"t{number}", segment_bytes="200", retention_bytes="1")
            for _ in range(3):
                await produced(client, batch(b"x" * 100), topic=f"t{number}")
        plan.add(DiskFault(frozenset({"rename"}), errno.EIO, "/d2/"))
        house = running.broker.parts.housekeeping
        assert house is not None

        for _ in range(3):
            await house.apply_retention()

        (lost, *_) = [
            f"t{number}"
            for number in range(12)
            if running.broker.partitions.is_offline(f"t{number}", 0)
        ]
        await until_leader_is(running, lost, -1)

    lines = [one for one in caplog.records if one.levelname == "ERROR"]
    assert [one.name for one in lines] == ["ottla.log"]

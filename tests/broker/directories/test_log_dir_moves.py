"""AlterReplicaLogDirs: replicas that change their data directory while they are used."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.authorization.authorizer import Authorizer
from ottla.broker.directories import replica_moves
from ottla.broker.log.storage.checkpoints import encode_partition_metadata
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.compression import Codec
from tests.broker.support.followers import until
from tests.broker.support.requests import NOW, TOPIC, batch, create, fetched, produced
from tests.protocol.records.old_bytes import Made, message_set, wrapper
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.broker.engine.context import RequestCaller
    from tests.support.raw_client import RawClient

TWO = {"log.dirs": "/d1,/d2"}
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
PARTITION = TopicPartition(TOPIC, 0)
# A move under it makes no progress that a test could see the end of.
SLOW = {**TWO, RATE: "1"}


async def moved(client: RawClient, path: str, version: int = 2, topic: str = TOPIC) -> ErrorCode:
    """The answer to the wish to have partition 0 in that directory."""
    wanted = AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, [0])])
    answer = await client.call(version, AlterReplicaLogDirsRequest([wanted]))
    ((result,),) = [one.partitions for one in answer.results]
    assert (answer.results[0].topic_name, result.partition_index) == (topic, 0)
    return ErrorCode(result.error_code)


async def places(client: RawClient, topic: str = TOPIC) -> dict[str, Any]:
    """Partition 0 as each data directory describes it."""
    answer = await client.call(4, DescribeLogDirsRequest(topics=None))
    return {
        one.log_dir: part
        for one in answer.results
        for each in one.topics
        for part in each.partitions
        if each.name == topic and part.partition_index == 0
    }


def other_than(path: str) -> str:
    """The other one of two directories."""
    return path[:-1] + ("2" if path.endswith("1") else "1")


async def place_of(client: RawClient, topic: str = TOPIC) -> str:
    """The directory that partition 0 is served from."""
    found = await places(client, topic)
    (path,) = [path for path, part in found.items() if not part.is_future_key]
    return path


async def finished(client: RawClient, path: str, topic: str = TOPIC) -> None:
    """Wait until the replica is there, and nowhere else."""
    async with asyncio.timeout(60):
        while list(await places(client, topic)) != [path]:
            await asyncio.sleep(0.02)


async def values(client: RawClient) -> list[int]:
    """The base offsets of all batches."""
    found: list[int] = []
    while True:
        next_offset = found[-1] + 1 if found else 0
        part = await fetched(client, next_offset)
        new = [one.base_offset for one in iterate_batches(bytes(part.records))]
        if not new:
            return found
        found += new


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_replica_is_moved_while_it_is_written_and_read(version: int) -> None:
    """No record is lost, repeated or refused, and readers see all of them at any time."""
    async with running_broker(TWO) as running, running.connect() as client:
        await create(client, segment_bytes="20000")
        for _ in range(60):
            await produced(client, batch(b"x" * 1000))
        target = other_than(await place_of(client))
        done = asyncio.Event()
        acknowledged: list[int] = []

        async def write() -> None:
            async with running.connect() as producer:
                while not done.is_set() or len(acknowledged) < 10:
                    answer = await produced(producer, batch(b"y" * 1000))
                    assert answer.error_code == ErrorCode.NONE
                    acknowledged.append(answer.base_offset)

        writer = asyncio.ensure_future(write())
        error = await moved(client, target, version)
        await finished(client, target)
        done.set()
        await writer

        assert error == ErrorCode.NONE
        assert acknowledged == list(range(60, 60 + len(acknowledged)))
        assert await values(client) == list(range(60 + len(acknowledged)))
        runtime = running.broker.partitions.find(TOPIC, 0)
        assert runtime is not None
        assert runtime.log.directory == f"{target}/t-0"


async def test_messages_of_format_1_are_moved_as_they_are() -> None:
    """With the mark of their log, without which a start would rewrite them."""
    disk = MemoryDisk()
    async with running_broker(TWO, disk) as running, running.connect() as client:
        await create(client, TOPIC, 1, ottla_keep_message_format="true", segment_bytes="20000")
        made = [Made(n, NOW + n, b"k", b"x" * 500) for n in range(10)]
        for _ in range(20):
            await produced(client, wrapper(1, made, Codec.SNAPPY), 2)
            await produced(client, message_set(1, made[:2]), 2)
            await produced(client, batch(b"y"))
        before = bytes((await fetched(client, 0)).records)
        target = other_than(await place_of(client))

        assert await moved(client, target) == ErrorCode.NONE
        await finished(client, target)
        await produced(client, wrapper(1, made, Codec.SNAPPY), 2)

        assert bytes((await fetched(client, 0)).records).startswith(before)
        runtime = running.broker.partitions.find(TOPIC, 0)
        assert runtime is not None
        assert runtime.log.keeps_messages
        assert runtime.log.log_end_offset == 20 * 13 + 10
        assert disk.exists(f"{target}/t-0/message-format-1")


async def test_a_move_that_is_under_way_is_shown_and_can_be_given_up() -> None:
    """An administrator sees how far it is; back to the present directory means to stop it."""
    async with running_broker(SLOW) as running, running.connect() as client:
        await create(client)
        for _ in range(400):
            await produced(client, batch(b"x" * 1000), acks=1)
        source = await place_of(client)
        target = other_than(source)
        begun = await moved(client, target)
        async with asyncio.timeout(60):
            while not (await places(client))[target].partition_size:
                await asyncio.sleep(0.02)
        under_way = await places(client)
        again = await moved(client, target)
        given_up = await moved(client, source)
        after = await places(client)
        await running.broker.parts.housekeeping.tidy()
        names = await running.broker.ports.disk.scan(target)

    assert (begun, again, given_up) == (ErrorCode.NONE,) * 3
    assert (under_way[source].is_future_key, under_way[target].is_future_key) == (False, True)
    assert 0 < under_way[target].offset_lag < 400
    assert 0 < under_way[target].partition_size < under_way[source].partition_size
    assert list(after) == [source]
    assert not [name for name in names if name.startswith("t-0")]


async def test_a_directory_is_chosen_for_a_replica_that_is_not_made_yet() -> None:
    """kafka-reassign-partitions says so before it moves the replica to this broker."""
    async with running_broker(TWO) as running, running.connect() as client:
        await create(client, "first")
        emptier = other_than(await place_of(client, "first"))
        chosen = other_than(emptier)
        error = await moved(client, chosen)
        await create(client)

        assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await place_of(client) == chosen
        assert await moved(client, "/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND


async def test_a_move_that_a_stop_interrupts_is_finished_by_the_next_start() -> None:
    """Whatever the administrator asked for is not forgotten."""
    disk = MemoryDisk()
    async with running_broker(SLOW, disk) as running, running.connect() as client:
        await create(client)
        for _ in range(300):
            await produced(client, batch(b"x" * 1000), acks=1)
        target = other_than(await place_of(client))
        assert await moved(client, target) == ErrorCode.NONE
    async with running_broker(TWO, disk) as running, running.connect() as client:
        await finished(client, target)
        assert await values(client) == list(range(300))


def copy_of_an_earlier_topic(folder: Path) -> Path:
    """Make it of the copy that a stop has left behind."""
    (copy,) = folder.glob("*/t-0.*-future")
    metadata = copy / "partition.metadata"
    metadata.write_bytes(encode_partition_metadata(b"an earlier topic"))
    return copy


async def test_a_copy_of_an_earlier_topic_moves_no_replica_of_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are given again, ids are not: no administrator asked to move the later topic's replica.
    The copy stays until the deletion of its own topic takes it away."""
    monkeypatch.setattr(replica_moves, "RESUME_MS", 20.0)
    offload = RealOffload(2)
    disk = RealDisk(offload)
    two = {"log.dirs": f"{tmp_path}/d1,{tmp_path}/d2"}
    async with running_broker({**two, RATE: "1"}, disk) as running, running.connect() as client:
        await create(client)
        for _ in range(300):
            await produced(client, batch(b"x" * 1000), acks=1)
        target = other_than(await place_of(client))
        assert await moved(client, target) == ErrorCode.NONE
    copy = copy_of_an_earlier_topic(tmp_path)
    async with running_broker(two, disk) as running, running.connect() as client:
        await asyncio.sleep(0.3)
        assert list(await places(client)) == [other_than(target)]
        assert await values(client) == list(range(300))
        assert copy.is_dir()
    offload.close()


async def test_a_topic_that_is_deleted_while_it_is_moved_is_gone() -> None:
    """And one of the same name begins empty, without a move."""
    async with running_broker(SLOW) as running, running.connect() as client:
        await create(client)
        for _ in range(300):
            await produced(client, batch(b"x" * 1000), acks=1)
        await moved(client, other_than(await place_of(client)))
        await client.call(5, DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=5000))
        await until(lambda: running.broker.partitions.find(TOPIC, 0) is None)
        await create(client)

        assert len(await places(client)) == 1
        assert await values(client) == []


COPIED_LOG = "-future/00000000000000000000.log"


async def test_a_failing_new_directory_ends_the_move_and_nothing_else() -> None:
    """The replica is served from where it is."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan)
    async with running_broker(TWO, disk) as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"x" * 1000))
        source = await place_of(client)
        plan.add(DiskFault(frozenset({"append"}), path_part=COPIED_LOG))
        begun = await moved(client, other_than(source))
        futures = running.broker.partitions.logs.futures
        await until(lambda: futures.find(PARTITION) is None)
        refused = await moved(client, other_than(source))

        assert (begun, refused) == (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
        assert await place_of(client) == source
        assert (await produced(client, batch(b"x"))).base_offset == 1


async def test_a_move_waits_for_room_on_its_new_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk has not failed: once it has room, the move continues."""
    monkeypatch.setattr(replica_moves, "REST_MS", 50.0)
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan)
    async with running_broker(TWO, disk) as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"x" * 1000))
        target = other_than(await place_of(client))
        full = DiskFault(frozenset({"append"}), errno.ENOSPC, COPIED_LOG, times=3)
        plan.add(full)
        assert await moved(client, target) == ErrorCode.NONE
        await finished(client, target)

        assert await values(client) == [0]


class _Shut(Authorizer):
    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        return operation is not Operation.ALTER or resource is not AclResourceType.CLUSTER


async def test_moves_are_for_those_who_may_alter_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that could move logs could fill a disk and stop the brokers on it."""
    monkeypatch.setattr("ottla.broker.authorization.setup.Authorizer", _Shut)
    async with running_broker(TWO) as running, running.connect() as client:
        await create(client)
        refused = await moved(client, "/d2")

        assert refused == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _real(path: Path) -> tuple[dict[str, str], RealDisk]:
    return {"log.dirs": f"{path}/d1,{path}/d2"}, RealDisk(RealOffload())


async def test_a_replica_is_moved_on_real_file_systems(tmp_path: Path) -> None:
    """Names, descriptors and sendfile are the kernel's; a restart finds it in its new place."""
    settings, disk = _real(tmp_path)
    async with running_broker(settings, disk) as running, running.connect() as client:
        await create(client, segment_bytes="50000")
        for _ in range(200):
            await produced(client, batch(b"x" * 1000), acks=1)
        source = await place_of(client)
        target = other_than(source)
        assert await moved(client, target) == ErrorCode.NONE
        for _ in range(20):
            await produced(client, batch(b"y" * 1000), acks=1)
        await finished(client, target)
        assert await values(client) == list(range(220))
        for _ in range(20):
            await produced(client, batch(b"z" * 1000), acks=1)
    async with running_broker(settings, disk) as running, running.connect() as client:
        assert await place_of(client) == target
        assert await values(client) == list(range(240))
        assert (await produced(client, batch(b"x"))).base_offset == 240

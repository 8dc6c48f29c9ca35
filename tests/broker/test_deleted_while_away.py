"""Topics deleted while a broker was away: their directories go when it is back."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.coordinator.store import deleted_topics, paths
from ottla.coordinator.store.store import Delete
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.clock import RealClock
from tests.broker.support.brokers import DATA, Brokers
from tests.broker.support.requests import batch, create, produced
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.server.broker import Broker
    from ottla.coordinator.store.tree import Tree


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    """Three, whose deleted files go at once."""
    made = Brokers(3, {"log.segment.delete.delay.ms": "0"})
    await made.start()
    yield made
    await made.stop()


def controller(brokers: Brokers) -> Broker:
    (found,) = {broker.metadata.controller_id for broker in brokers.alive.values()}
    return brokers.alive[found]


async def make(brokers: Brokers, name: str, *replicas: int) -> None:
    """A topic of one partition, with a record in it."""
    assignment = [CreatableReplicaAssignment(0, list(replicas))]
    request = CreateTopicsRequest([CreatableTopic(name, -1, -1, assignment)], timeout_ms=30_000)
    address = controller(brokers).address
    async with RawClient(address.host, address.port) as client:
        answer = await client.call(5, request)
    assert answer.topics[0].error_code == ErrorCode.NONE
    await brokers.until(lambda: brokers.leader(name) > 0)
    await brokers.until_in_sync(name, len(replicas))
    address = brokers.alive[brokers.leader(name)].address
    async with RawClient(address.host, address.port) as client:
        assert (await produced(client, batch(b"x"), topic=name)).error_code == ErrorCode.NONE


async def delete(brokers: Brokers, *names: str) -> None:
    await brokers.until(lambda: controller(brokers).node_id in brokers.alive)
    address = controller(brokers).address
    async with RawClient(address.host, address.port) as client:
        answer = await client.call(
            4, DeleteTopicsRequest(topic_names=list(names), timeout_ms=30_000)
        )
    assert [one.error_code for one in answer.responses] == [ErrorCode.NONE] * len(names)


def tree_of(brokers: Brokers) -> Tree:
    assert brokers._store is not None
    return brokers._store.read_tree()


def owed(brokers: Brokers) -> dict[str, tuple[int, ...]]:
    """Which brokers have not answered the deletion of which topics."""
    tree = tree_of(brokers)
    found = {}
    for name in tree.children(paths.DELETED_TOPICS):
        record = deleted_topics.parse(name, tree.get(f"{paths.DELETED_TOPICS}/{name}").data)
        assert record is not None
        found[record.name] = record.brokers
    return found


def directories(brokers: Brokers, node_id: int) -> set[str]:
    """Partition directories on a broker's disk, deleted ones that are left included."""
    prefix = f"{DATA}/"
    inside = [path for path in brokers.disks[node_id]._files if path.startswith(prefix)]
    return {path.split("/")[2] for path in inside if path.count("/") > 2}


async def until_not_3(brokers: Brokers) -> None:
    """The living have a controller that lives, and know that broker 3 is gone."""
    await brokers.until(
        lambda: all(
            3 not in one.metadata.image.brokers and one.metadata.controller_id in brokers.alive
            for one in brokers.alive.values()
        )
    )


async def test_a_broker_that_was_dead_at_the_deletion_removes_the_directories(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """They would fill its disk for ever: no later start would know more about them."""
    caplog.set_level("INFO", "ottla.partitions")
    for name in ("gone", "again", "kept"):
        await make(brokers, name, 1, 2, 3)
    await brokers.kill(3)
    await until_not_3(brokers)
    await delete(brokers, "gone", "again")
    await make(brokers, "again", 1, 2)
    await brokers.until(lambda: owed(brokers) == {"gone": (3,), "again": (3,)})
    assert {"gone-0", "again-0", "kept-0"} <= directories(brokers, 3)

    await brokers.start_one(3)

    await brokers.until(lambda: owed(brokers) == {})
    await brokers.until(lambda: directories(brokers, 3) == {"kept-0"})
    assert directories(brokers, 1) == {"again-0", "kept-0"}
    lines = [one.getMessage() for one in caplog.records if "were deleted without" in one.message]
    assert len(lines) == 1
    assert "removed 2 partition directories" in lines[0]


async def test_the_namesake_that_was_made_meanwhile_is_served(brokers: Brokers) -> None:
    """C-22: the old topic's directory goes, and the new one's replica begins empty."""
    await make(brokers, "t", 1, 2, 3)
    await brokers.kill(3)
    await until_not_3(brokers)
    await delete(brokers, "t")
    await brokers.start_one(3)
    await make(brokers, "t", 1, 2, 3)

    await brokers.until(lambda: owed(brokers) == {})
    await brokers.until(lambda: directories(brokers, 3) == {"t-0"})
    await brokers.until_equal("t")
    log = brokers.partition(3, "t").log
    assert log.log_end_offset == 1
    assert log.topic_id == brokers.partition(1, "t").log.topic_id


async def test_a_topic_that_is_missing_without_a_record_is_kept(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    """S-32: the store may be an older copy of itself, or the controller unable to read the topic.
    What is missing is not what was deleted."""
    await make(brokers, "t", 1, 2, 3)
    await brokers.kill(3)
    await until_not_3(brokers)
    await delete(brokers, "t")
    await brokers.until(lambda: owed(brokers) == {"t": (3,)})
    (name,) = tree_of(brokers).children(paths.DELETED_TOPICS)
    live = controller(brokers)
    assert live.state.lifecycle is not None
    await live.state.lifecycle.session.multi([Delete(f"{paths.DELETED_TOPICS}/{name}")])
    # The next leader has never heard of it.
    await brokers.kill(live.node_id)
    await brokers.until(
        lambda: all(one.metadata.controller_id in brokers.alive for one in brokers.alive.values())
    )

    broker = await brokers.start_one(3)

    assert "t-0" in directories(brokers, 3)
    assert [log.partition.topic for log in broker.partitions.logs] == ["t"]
    lines = [one.message for one in caplog.records if "no record says" in one.message]
    assert [line.split(" ", 1)[0] for line in lines] == ["1"]


async def test_a_directory_without_its_topics_id_is_kept(brokers: Brokers) -> None:
    """A power cut may have taken partition.metadata: the records may be of another topic."""
    await make(brokers, "t", 1, 2, 3)
    await brokers.kill(3)
    await brokers.disks[3].unlink(f"{DATA}/t-0/partition.metadata")
    await until_not_3(brokers)
    await delete(brokers, "t")

    await brokers.start_one(3)

    await brokers.until(lambda: owed(brokers) == {})
    assert "t-0" in directories(brokers, 3)


async def test_a_data_directory_that_was_offline_at_the_deletion_is_cleared_when_it_is_back() -> (
    None
):
    """The deletion stays owed by a broker that could not look everywhere."""
    memory, plan = MemoryDisk(), FaultPlan()
    settings = {"log.dirs": "/d1,/d2", "log.segment.delete.delay.ms": "0"}
    disk = FaultyDisk(memory, plan, RealClock())
    async with running_broker(settings, disk) as running, running.connect() as client:
        for name in ("a", "b"):
            await create(client, name)
            await produced(client, batch(b"x"), topic=name)
        (lost,) = [name for name in ("a", "b") if memory.exists(f"/d2/{name}-0")]
        plan.add(DiskFault(frozenset({"append"}), errno.EIO, "/d2/"))
        refused = await produced(client, batch(b"y"), topic=lost)
        request = DeleteTopicsRequest(topic_names=[lost], timeout_ms=30_000)
        answer = await client.call(4, request)
        assert answer.responses[0].error_code == ErrorCode.NONE
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert memory.exists(f"/d2/{lost}-0")

    async with running_broker(settings, memory):
        async with asyncio.timeout(60):
            while await found_in(memory, "/d2", lost):
                await asyncio.sleep(0.02)
        kept = "b" if lost == "a" else "a"
        assert await found_in(memory, "/d1", kept) == [f"{kept}-0"]


async def found_in(disk: MemoryDisk, directory: str, topic: str) -> list[str]:
    """Directories of that topic, under whatever name."""
    return [name for name in await disk.scan(directory) if name.startswith(f"{topic}-")]

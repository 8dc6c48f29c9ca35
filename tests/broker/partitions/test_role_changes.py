"""Many partitions that take on their roles by one request: together, and each for itself."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from ottla.broker.replica.leading import PartitionLeadership
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.broker.support.node import quiet
from tests.broker.support.replica_site import Site
from tests.broker.support.replica_wire import TOPIC, TOPIC_ID

if TYPE_CHECKING:
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.ports import Disk

COUNT = 20


class GatedDisk(MemoryDisk):
    """Makes names durable only when it is told to; one gate for each that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.is_gated = False
        self.gates: list[tuple[str, asyncio.Event]] = []

    async def fsync_directory(self, directory: str) -> None:
        if self.is_gated:
            gate = asyncio.Event()
            self.gates.append((directory, gate))
            await gate.wait()
        await super().fsync_directory(directory)


class SlowDisk(MemoryDisk):
    """Lets others go on meanwhile, as real ones do."""

    async def fsync_directory(self, directory: str) -> None:
        await quiet()
        await super().fsync_directory(directory)


async def site_on(disk: Disk) -> Site:
    """One broker with twenty partitions that it has written to."""
    site = Site()
    site.nodes[1].disk = disk
    await site.start(1)
    assert await apply(site, leader=1, leader_epoch=0) == [ErrorCode.NONE] * COUNT
    for index in range(COUNT):
        assert site.nodes[1].produce(b"record", index=index).error_code is ErrorCode.NONE
    return site


async def apply(site: Site, leader: int, leader_epoch: int, *indexes: int) -> list[int]:
    states = [
        LeaderAndIsrPartitionState(
            partition_index=index,
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=leader_epoch,
            isr=[1, 2],
            replicas=[1, 2],
            is_new=leader_epoch == 0,
        )
        for index in indexes or range(COUNT)
    ]
    topic = LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=states)
    request = LeaderAndIsrRequest(controller_id=2, topic_states=[topic])
    answer = await site.nodes[1].partitions.apply_leader_and_isr(request)
    errors = answer.topics[0].partition_errors
    assert [one.partition_index for one in errors] == [one.partition_index for one in states]
    return [one.error_code for one in errors]


def served(site: Site) -> list[int]:
    return [index for index in range(COUNT) if runtime(site, index).is_open]


def runtime(site: Site, index: int) -> PartitionRuntime:
    return site.nodes[1].partition(index)


@pytest.mark.requirement("CTL-22")
async def test_the_epochs_of_one_request_become_durable_together() -> None:
    """One after the other, a failover of thousands of partitions takes as many turns of the disk,
    and the last of them has no leader all that time. R-04 holds for each: not served before."""
    disk = GatedDisk()
    site = await site_on(disk)
    disk.is_gated = True
    asked = asyncio.ensure_future(apply(site, leader=1, leader_epoch=1))
    await quiet()
    waiting = list(disk.gates)
    first = served(site)
    directory, gate = waiting[7]
    gate.set()
    await quiet()
    second = served(site)
    for _, gate in waiting:
        gate.set()

    assert len(waiting) == COUNT
    assert first == []
    assert [f"{TOPIC}-{index}" for index in second] == [directory.rpartition("/")[2]]
    assert await asked == [ErrorCode.NONE] * COUNT
    assert served(site) == list(range(COUNT))
    disk.is_gated = False
    await site.stop()


async def test_an_epoch_over_an_empty_log_costs_no_disk_anything() -> None:
    """Thousands of new partitions: their epochs tell no records apart. The first record carries its
    own, which is found again with it."""
    plan = FaultPlan()
    no_epochs = DiskFault(frozenset({"create", "fsync", "rename"}), errno.EIO, "leader-epoch-check")
    plan.add(no_epochs)
    site = Site()
    site.nodes[1].disk = FaultyDisk(MemoryDisk(), plan)
    await site.start(1)
    assert await apply(site, leader=1, leader_epoch=0) == [ErrorCode.NONE] * COUNT
    assert served(site) == list(range(COUNT))
    assert await apply(site, leader=1, leader_epoch=4) == [ErrorCode.NONE] * COUNT
    site.nodes[1].produce(b"record")
    plan.clear()
    await site.nodes[1].kill()
    await site.start(1)
    assert await apply(site, leader=1, leader_epoch=5) == [ErrorCode.NONE] * COUNT
    assert runtime(site, 0).replica.history.epochs.end_offset_for(4, 1) == (4, 1)
    await site.stop()


async def test_one_partition_without_room_for_its_epoch_keeps_no_other_from_leading() -> None:
    """C-12, S-11: a full disk is no broken one, and the others' files have been written."""
    plan = FaultPlan()
    site = await site_on(FaultyDisk(MemoryDisk(), plan))
    path = f"{TOPIC}-3/leader-epoch-checkpoint"
    plan.add(DiskFault(frozenset({"fsync"}), errno.ENOSPC, path, times=1))
    errors = await apply(site, leader=1, leader_epoch=1)
    others = [index for index in range(COUNT) if index != 3]

    assert [index for index in range(COUNT) if errors[index] == ErrorCode.NONE] == others
    assert errors[3] == ErrorCode.KAFKA_STORAGE_ERROR
    assert served(site) == others
    # The same epoch is not served at the next try either, unless it is on the disk by then.
    assert await apply(site, 1, 1) == [ErrorCode.NONE] * COUNT
    assert runtime(site, 3).log.saved_leader_epochs == [(0, 0), (1, 1)]
    assert served(site) == list(range(COUNT))
    await site.stop()


async def test_a_partition_served_before_the_disk_broke_is_not_reported_as_served() -> None:
    """S-09: the directory is gone with all that is on it; the controller has to elect others."""
    plan = FaultPlan()
    site = await site_on(FaultyDisk(MemoryDisk(), plan))
    plan.add(DiskFault(frozenset({"fsync_directory"}), errno.EIO, f"{TOPIC}-19"))

    assert await apply(site, 1, 1) == [ErrorCode.KAFKA_STORAGE_ERROR] * COUNT
    assert len(site.nodes[1].partitions) == 0
    await site.stop()


async def test_an_epoch_that_was_overtaken_does_not_open_the_partition_for_the_next() -> None:
    """R-04: the newer epoch is not on the disk when the older one has got there."""
    disk = GatedDisk()
    site = await site_on(disk)
    one = runtime(site, 0)
    disk.is_gated = True
    works = [
        asyncio.ensure_future(one.become(PartitionLeadership(1, epoch, epoch, (1, 2), (1, 2))))
        for epoch in (1, 2)
    ]
    await quiet()
    disk.gates[0][1].set()
    await quiet()

    assert one.leader_epoch == 2
    assert 0 not in served(site)
    disk.gates[1][1].set()
    await asyncio.gather(*works)
    assert 0 in served(site)
    disk.is_gated = False
    await site.stop()


async def test_a_partition_that_is_named_twice_obeys_in_the_order_of_the_request() -> None:
    """Applied at the same time, both would change one log."""
    site = await site_on(SlowDisk())
    await apply(site, 1, 1)
    assert await apply(site, 2, 2, 5, 30, 5, 30) == [ErrorCode.NONE] * 4
    await site.stop()


async def test_roles_that_wait_for_others_are_of_the_session_in_which_they_were_given() -> None:
    """A session that begins meanwhile has not given them (R-19)."""
    site = await site_on(GatedDisk())
    partitions = site.nodes[1].partitions
    async with partitions._lock:
        order = asyncio.ensure_future(apply(site, 1, 0))
        await asyncio.sleep(0)
        partitions._lease.term += 1
    assert await order == [ErrorCode.NONE] * COUNT
    late = [runtime(site, index).has_lease for index in range(COUNT)]
    await apply(site, 1, 0)

    assert late == [False] * COUNT
    assert all(runtime(site, index).has_lease for index in range(COUNT))

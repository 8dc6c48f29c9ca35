"""Followers on disks that are full, broken, slow, or that lose power."""

from __future__ import annotations

import errno

import pytest

from ottla.broker.log.storage.free_space import RETRY_MS
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from tests.broker.log.crash_disk import CrashDisk
from tests.broker.support.replica_site import Site, starts_and_ends, values
from tests.broker.support.replica_wire import TOPIC


async def site_with(plan: FaultPlan) -> Site:
    site = Site()
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan)
    await site.start()
    await site.lead(1)
    site.nodes[1].produce(*values(2))
    await site.settle(600)
    return site


async def test_a_disk_that_is_low_on_space_goes_on_following() -> None:
    """S-11: what the leader has acknowledged is better on two disks, and segments will be freed."""
    site = await site_with(FaultPlan())
    site.nodes[2].partition().log.home.health.is_low_on_space = True
    site.nodes[1].produce(*values(2, 2))
    await site.settle(600)
    assert len(site.contents()) == 1
    await site.stop()


async def test_a_full_disk_catches_up_when_there_is_room_again() -> None:
    """S-11: a full disk is no broken one."""
    plan = FaultPlan()
    site = await site_with(plan)
    plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, ".log"))
    for number in range(1, 5):
        site.nodes[1].produce(*values(2, 2 * number))
        await site.settle(100)
    assert site.nodes[2].partition().log.log_end_offset == 2
    plan.clear()
    await site.settle()
    assert len(site.contents()) == 1
    await site.stop()


async def test_a_follower_on_a_full_disk_does_not_pass_for_caught_up() -> None:
    """In the ISR again while nothing is written, it would hold up the next write with acks=all."""
    plan = FaultPlan()
    site = await site_with(plan)
    follower = site.nodes[2]
    health = follower.partition().log.home.health
    follower.fetchers.heed_full_disks(lambda: follower.partitions.logs.have_no_room)
    # Another leadership makes another fetcher, which heeds it.
    await site.lead(3, 1)
    plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, ".log"))
    site.nodes[3].produce(*values(2, 2))
    await site.settle(600)
    assert health.has_no_room
    site.requests.clear()
    await site.settle(2_000)
    assert [one for one in site.requests if one[0] == 2] == []

    plan.clear()
    health.check_space(site.clock.now_ms())
    health.check_space(site.clock.now_ms() + RETRY_MS)
    await site.settle(2_000)
    assert len(site.contents()) == 1
    await site.stop()


async def test_a_follower_on_a_full_disk_deletes_records_with_its_leader() -> None:
    """That may be what makes room, and the leader's DeleteRecords waits for it."""
    plan = FaultPlan()
    site = await site_with(plan)
    leader = next(one for one in site.nodes.values() if one.partition().replica.is_leader)
    leader.produce(*values(1, 3))
    await site.settle()
    plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, ".log"))
    leader.produce(*values(4, 2))
    await site.settle(600)
    led, followed = leader.partition(), site.nodes[2].partition()
    await led.log.delete_records_before(2)
    led.log_was_cut()
    await site.settle(RETRY_MS + 2_000)
    starts = led.log.log_start_offset, followed.log.log_start_offset
    end = followed.log.log_end_offset
    await site.stop()

    assert starts == (2, 2)
    assert end == 3


async def test_a_broken_disk_ends_the_following_of_its_partitions() -> None:
    """R-29: the first error latches; not one byte lands behind it."""
    plan = FaultPlan()
    site = await site_with(plan)
    plan.add(DiskFault(frozenset({"append"}), errno.EIO, ".log", times=1))
    failed: list[str] = []
    assert site.nodes[2].logs is not None
    site.nodes[2].logs.on_failure(failed.append)
    site.nodes[1].produce(*values(2, 2))
    await site.settle(300)

    # The server tells the controller of it by this very call (KIP-112).
    assert failed == ["/data"]
    assert site.nodes[2].partitions.is_offline(TOPIC, 0)
    assert list(site.nodes[2].fetchers) == []
    assert len(site.contents_of(1, 3)) == 1
    await site.stop()


async def test_a_cut_that_fails_takes_the_directory_offline() -> None:
    """S-20, R-29: the content of the log is unknown after a failed truncation."""
    plan = FaultPlan()
    site = await site_with(plan)
    site.cut = {(2, 1), (1, 3), (3, 1)}
    await site.lead(3, 1, to=(3,), isr=(3,))
    await site.nodes[2].partition().flush()
    await site.lead(2, 1, to=(2,), isr=(2,))
    site.nodes[2].produce(b"only here")
    plan.add(DiskFault(frozenset({"truncate"}), errno.EIO, ".log"))
    site.cut.clear()
    await site.lead(3, 2, isr=(3,))
    await site.settle(600)

    assert site.nodes[2].partitions.is_offline(TOPIC, 0)
    assert len(site.contents_of(1, 3)) == 1
    await site.stop()


async def test_one_bad_partition_does_not_hold_up_the_others() -> None:
    """C-12: the answers of its neighbours are in the same response."""
    plan = FaultPlan()
    site = Site()
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan)
    await site.start()
    await site.lead(1, indexes=(0, 1, 2))
    plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC, f"{TOPIC}-1/"))
    for index in range(3):
        site.nodes[1].produce(*values(2), index=index)
    await site.settle(300)
    assert [site.nodes[2].content(index) != b"" for index in range(3)] == [True, False, True]
    for index in range(3):
        site.nodes[1].produce(*values(2, 2), index=index)
    await site.settle(100)
    assert site.nodes[2].content(2) == site.nodes[1].content(2)
    plan.clear()
    await site.settle(300)
    assert site.nodes[2].content(1) == site.nodes[1].content(1)
    await site.stop()


@pytest.mark.parametrize("seed", range(12))
async def test_a_follower_catches_up_after_any_power_cut(seed: int) -> None:
    """S-06, R-02: while it appended, rolled and cut; what was not flushed comes back torn."""
    site = Site(configs={"segment.bytes": "600"})
    disk = CrashDisk()
    site.nodes[2].disk = disk
    await site.start()
    await site.lead(1)
    epoch = 0
    for number in range(6):
        for count in range(4):
            site.nodes[1].produce(*values(2, number * 10 + count), acks=1)
        await site.settle(20 + 10 * (seed % 5))
        if number % 2 == seed % 2:
            # Something that has to be cut again.
            epoch += 1
            await site.lead(2, epoch, to=(2,), isr=(2,))
            site.nodes[2].produce(*values(3, 900 + number))
            if seed % 3 == 0:
                await site.nodes[2].partition().flush()
            epoch += 1
            await site.lead(1, epoch, isr=(1, 3))
            if seed % 4:
                await site.settle(10 * (seed % 4))
        await site.nodes[2].kill()
        disk = disk.power_cut(seed * 100 + number, ordered=bool(seed % 2))
        site.nodes[2].disk = disk
        await site.nodes[2].start()
        epoch += 1
        await site.lead(1, epoch, isr=(1, 3))
    await site.settle()

    assert len(site.contents()) == 1
    ((start, watermark, end),) = starts_and_ends(site)
    assert (start, watermark) == (0, end)
    await site.stop()

"""A follower says that it has what it flushed, where the topic asks for flushes, and no more."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace

import pytest

from ottla.broker.following.wire import FetchSettings
from ottla.broker.partitions.produces import Flushes
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import EpochEndOffset
from tests.broker.log.crash_disk import CrashDisk
from tests.broker.support.node import quiet
from tests.broker.support.replica_answers import Held, records, says
from tests.broker.support.replica_site import Site, values
from tests.broker.support.replica_wire import TOPIC

FLUSHES = {"ottla.flush.before.ack": "true"}
PAIR = (1, 2)
SLOW_MS = 300.0


def slow(path_part: str, delay_ms: float = SLOW_MS) -> DiskFault:
    """The disk takes its time with flushes there."""
    return DiskFault(frozenset({"fsync"}), 0, path_part, delay_ms=delay_ms)


async def pair(plan: FaultPlan, configs: dict[str, str] | None = None, count: int = 1) -> Site:
    """Broker 1 leads and broker 2, whose disk does as planned, follows."""
    site = Site(configs=FLUSHES if configs is None else configs)
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan, site.clock)
    await site.start(*PAIR)
    await site.lead(1, isr=PAIR, indexes=tuple(range(count)))
    await site.settle(100)
    return site


def acknowledged(site: Site, index: int = 0) -> int:
    """How much the leader counts as stored on its follower."""
    leading = site.nodes[1].partition(index).replica.leading
    assert leading is not None
    return max(0, leading.followers[2].log_end_offset)


def flushed(site: Site, node_id: int, index: int = 0) -> int:
    return site.nodes[node_id].partition(index).log.recovery_point


@pytest.mark.parametrize("leader", PAIR)
@pytest.mark.parametrize("seed", range(8))
async def test_acknowledged_records_survive_a_power_cut_of_all_replicas(
    seed: int, leader: int
) -> None:
    """R-21, R-23: after a power cut of both, either may be the one to lead."""
    site = Site(configs={"segment.bytes": "600", **FLUSHES})
    disks = {node_id: CrashDisk() for node_id in PAIR}
    for node_id in PAIR:
        site.nodes[node_id].disk = disks[node_id]
    await site.start(*PAIR)
    await site.lead(1, isr=PAIR)
    sent = 0
    for epoch in range(4):
        leading = site.nodes[leader if epoch else 1]
        flushes = Flushes(leading.tasks)
        for _ in range(6):
            appended = leading.produce(*values(2, sent), acks=-1)
            assert appended.error_code == ErrorCode.NONE
            sent += 2
            flushes.start(leading.partition())
            await site.settle(10 * (1 + seed % 4))
        partition = leading.partition()
        safe = min(partition.replica.high_watermark, partition.log.recovery_point)
        # These records are on one broker only and were never acknowledged as safe.
        leading.produce(*values(1, sent), acks=-1)
        before = records(site, leading.node_id)
        for node_id in PAIR:
            await site.nodes[node_id].kill()
            disks[node_id] = disks[node_id].power_cut(seed * 100 + epoch, ordered=bool(seed % 2))
            site.nodes[node_id].disk = disks[node_id]
        await site.start(*PAIR)
        await site.lead(leader, epoch + 1, isr=PAIR)
        await site.settle(600)

        assert safe > 0
        assert records(site, leader)[:safe] == before[:safe]
        assert len(site.contents()) == 1
        sent = site.nodes[leader].partition().log.log_end_offset
    await site.stop()


async def test_the_leader_learns_only_of_flushed_records() -> None:
    """A fetch offset is what the leader acknowledges by; a slow disk cannot make it a lie."""
    plan = FaultPlan()
    site = await pair(plan)
    plan.add(slow(".log"))
    site.nodes[1].produce(*values(2))
    await site.settle(100)
    assert site.nodes[2].partition().log.log_end_offset == 2
    assert flushed(site, 2) == 0
    assert acknowledged(site) == 0
    await site.settle(SLOW_MS)
    assert flushed(site, 2) == 2
    assert acknowledged(site) == 2
    await site.stop()


async def test_without_the_setting_no_fetch_waits_for_a_disk() -> None:
    """What two page caches hold is acknowledged, as ever."""
    plan = FaultPlan()
    site = await pair(plan, {})
    plan.add(slow(".log"))
    site.nodes[1].produce(*values(2))
    await site.settle(100)
    assert acknowledged(site) == 2
    assert flushed(site, 2) == 0
    plan.clear()
    await site.stop()


async def test_flush_messages_counts_on_followers_as_on_the_leader() -> None:
    """A power cut takes no more of a follower than the setting allows."""
    site = await pair(FaultPlan(), {"flush.messages": "4"})
    site.nodes[1].produce(*values(3))
    await site.settle(100)
    assert flushed(site, 2) == 0
    site.nodes[1].produce(*values(1, 3))
    await site.settle(100)
    assert flushed(site, 2) == 4
    await site.stop()


async def test_the_watermark_waits_for_the_leaders_own_flush() -> None:
    """A power cut of all brokers must not take records that a consumer has read; the write
    schedules the flush."""
    site = await pair(FaultPlan())
    leader = site.nodes[1].partition()
    site.nodes[1].produce(*values(2))
    await site.settle(100)
    assert acknowledged(site) == 2
    assert leader.replica.high_watermark == 0
    await leader.flush()
    assert leader.replica.high_watermark == 2
    await site.stop()


async def test_a_new_leader_flushes_what_it_has_before_it_serves() -> None:
    """Without the flush, consumers could wait long for records that they could read before."""
    site = await pair(FaultPlan())
    site.nodes[1].produce(*values(2))
    await site.lead(1, 1, isr=PAIR)
    assert flushed(site, 1) == 2
    await site.settle(100)
    assert site.nodes[1].partition().replica.high_watermark == 2
    await site.stop()


async def test_a_failed_flush_is_never_acknowledged() -> None:
    """S-09: the disk says once that it has lost something; the partition is followed no more."""
    plan = FaultPlan()
    site = await pair(plan)
    plan.add(DiskFault(frozenset({"fsync"}), errno.EIO, ".log", times=1))
    failed: list[str] = []
    assert site.nodes[2].logs is not None
    site.nodes[2].logs.on_failure(failed.append)
    site.nodes[1].produce(*values(2))
    await site.settle(1_000)

    assert failed == ["/data"]
    assert site.nodes[2].partitions.is_offline(TOPIC, 0)
    assert list(site.nodes[2].fetchers) == []
    assert acknowledged(site) == 0
    await site.stop()


async def test_a_former_leader_flushes_before_its_first_fetch() -> None:
    """What it wrote in its own epoch may be lost as yet, and is not fetched again."""
    plan = FaultPlan()
    site = await pair(plan)
    await site.lead(2, 1, isr=PAIR)
    site.nodes[2].produce(*values(2))
    await site.settle(100)
    assert flushed(site, 2) == 0
    assert flushed(site, 1) == 2
    plan.add(slow(".log"))
    await site.lead(1, 2, isr=PAIR)
    await site.settle(100)
    assert acknowledged(site) == 0
    await site.settle(SLOW_MS)
    assert flushed(site, 2) == 2
    assert acknowledged(site) == 2
    await site.stop()


async def test_a_flush_of_the_last_epoch_does_not_count_in_the_next() -> None:
    """R-06: the token is void; what the new leader is told was flushed for it."""
    plan = FaultPlan()
    site = Site(configs=FLUSHES)
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan, site.clock)
    await site.start()
    await site.lead(1)
    await site.settle(100)
    plan.add(slow("t-0/00000000000000000000.log"))
    site.nodes[1].produce(*values(2))
    await site.settle(50)
    role = asyncio.create_task(site.lead(3, 1))
    await site.settle(100)
    assert site.nodes[3].partition().replica.high_watermark == 0
    await site.settle(2 * SLOW_MS)
    await role
    await site.settle(600)
    asked = [
        (request.topics[0].partitions[0].fetch_offset)
        for source, target, request in site.requests
        if (source, target) == (2, 3)
    ]
    assert set(asked) == {2}
    assert flushed(site, 2) == 2
    assert len(site.contents()) == 1
    await site.stop()


async def test_partitions_that_flush_do_not_keep_the_others_waiting() -> None:
    """Each kind has a connection of its own, also when the setting comes later."""
    plan = FaultPlan()
    site = await pair(plan, {}, count=2)
    node = site.nodes[2]
    site.configs = FLUSHES
    only = node.partition(0)
    only.use_settings(replace(only.settings, log=replace(only.settings.log, flush_messages=1)))
    node.partitions.on_settings(only)
    assert sorted(len(fetcher.following) for fetcher in node.fetchers) == [1, 1]
    plan.add(slow(f"{TOPIC}-0/"))
    for number in range(3):
        for index in range(2):
            site.nodes[1].produce(*values(1, number), index=index)
        await site.settle(50)
        assert acknowledged(site, 1) == number + 1
    assert acknowledged(site, 0) == 0
    await site.settle(1_000)
    assert acknowledged(site, 0) == 3
    plan.clear()
    await site.stop()


async def test_changed_settings_take_effect_with_the_next_records() -> None:
    """The topic's partitions are told; what is under way for them is done under a new token."""
    plan = FaultPlan()
    site = await pair(plan, {})
    site.nodes[1].produce(*values(2))
    await site.settle(100)
    site.configs = FLUSHES
    for node_id in PAIR:
        site.nodes[node_id].partitions.topic_changed(TOPIC)
    site.nodes[1].produce(*values(2, 2))
    await site.settle(100)
    assert flushed(site, 2) == acknowledged(site) == 4
    assert len(list(site.nodes[2].fetchers)) == 1
    await site.stop()


async def test_settings_that_change_during_a_cut_lose_no_partition() -> None:
    """A log that is being truncated refuses requests, which looks like a replica without a role."""
    plan = FaultPlan()
    site = await pair(plan, {})
    for number in range(2):
        site.nodes[1].produce(*values(2, 2 * number))
    await site.settle(600)
    node = site.nodes[2]
    # A reply is being sent from the file, so the cut waits a little for it (S-20).
    lent = node.partition().log.read(0, 1000, 4, True)
    held = Held(site, 2)
    site.nodes[1].produce(*values(1, 4))
    await site.settle(30)
    held.change = says(diverging_epoch=EpochEndOffset(0, 2))
    held.release()
    await quiet()
    assert node.partition().log.refusal is not None
    site.configs = FLUSHES
    node.partitions.topic_changed(TOPIC)
    plan.add(slow(".log"))
    asked = len(site.requests)
    while flushed(site, 2) < 2:
        # What the cut has left was never flushed either.
        assert len(site.requests) == asked
        await site.settle(10)
    plan.clear()
    await site.settle(600)

    assert lent.region is not None
    assert records(site, 2) == values(5)
    assert flushed(site, 2) == acknowledged(site) == 5
    await site.stop()


async def test_a_disk_that_hangs_holds_up_its_own_partitions_only() -> None:
    """S-10: the others of the leader lie on other disks perhaps, and wait for a while only."""
    plan = FaultPlan()
    site = await pair(plan, count=2)
    plan.add(slow(f"{TOPIC}-0/", 60_000))
    for index in range(2):
        site.nodes[1].produce(*values(1), index=index)
    await site.settle(400)
    assert acknowledged(site, 1) == 0
    await site.settle(200)
    assert acknowledged(site, 1) == 1
    # The partition on the healthy disk does not wait for the hung flush a second time.
    site.nodes[1].produce(*values(1, 1), index=1)
    await site.settle(50)
    assert acknowledged(site, 1) == 2
    assert acknowledged(site, 0) == 0
    plan.clear()
    await site.settle(61_000)
    assert acknowledged(site, 0) == 1
    await site.stop()


async def test_a_follower_that_catches_up_flushes_when_it_counts_again() -> None:
    """With a flush for each answer, a slow disk would never be back in the in-sync set."""
    plan = FaultPlan()
    site = Site(configs=FLUSHES)
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan, site.clock)
    site.manner = FetchSettings(max_bytes=200)
    await site.start()
    site.cut = {(2, 1)}
    await site.lead(1, isr=(1, 3))
    for number in range(30):
        site.nodes[1].produce(*values(2, 2 * number))
    await site.settle(1_000)
    await site.nodes[1].partition().flush()
    assert site.nodes[1].partition().replica.high_watermark == 60
    plan.add(slow(".log", 20))
    site.cut.clear()
    asked = len(site.requests)
    await site.settle(1_000)
    assert sum(source == 2 for source, _, _ in site.requests[asked:]) > 15
    assert plan.hits == 1
    assert flushed(site, 2) == acknowledged(site) == 60
    plan.clear()
    await site.stop()


async def test_a_slow_disk_flushes_many_small_segments_side_by_side() -> None:
    """One after the other, they take as long as the leader needs to write as many again."""
    plan = FaultPlan()
    site = Site(configs={"segment.bytes": "600", **FLUSHES})
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan, site.clock)
    await site.start()
    site.cut = {(2, 1)}
    await site.lead(1, isr=(1, 3))
    for number in range(300):
        site.nodes[1].produce(*values(2, 2 * number))
    await site.settle(1_000)
    await site.nodes[1].partition().flush()
    plan.add(slow(".log", 20))
    site.cut.clear()
    asked = len(site.requests)
    while not any(source == 2 for source, _, _ in site.requests[asked:]):
        await site.settle(10)
    await site.settle(500)
    segments = len(site.nodes[2].partition().log.segments)

    assert segments * 20 > 800
    assert flushed(site, 2) == acknowledged(site) == 600
    plan.clear()
    await site.stop()


async def test_a_stop_waits_for_a_flush_under_way() -> None:
    """P-04: the log is closed behind it, with everything on the disk."""
    plan = FaultPlan()
    site = await pair(plan)
    plan.add(slow(".log"))
    site.nodes[1].produce(*values(2))
    await site.settle(50)
    node = site.nodes[2]
    node.partitions.close()
    stopping = asyncio.create_task(node.fetchers.stop())
    await quiet()
    assert not stopping.done()
    await site.settle(SLOW_MS)
    await stopping
    assert flushed(site, 2) == 2
    node.is_running = False
    assert node.logs is not None
    assert await node.logs.close(1)
    await site.stop()

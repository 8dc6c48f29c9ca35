"""Answers that are late, stale or wrong, and cuts that meet the next role: none does harm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import EpochEndOffset
from tests.broker.support.node import quiet
from tests.broker.support.replica_answers import Held, records, says
from tests.broker.support.replica_site import Site, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAIR = (1, 2)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.start()
    yield made
    await made.stop()


async def test_a_refusal_of_the_last_epoch_does_not_end_the_fetching(site: Site) -> None:
    """R-06: FENCED_LEADER_EPOCH comes when the epoch it speaks of is over."""
    await site.lead(1)
    await site.settle(100)
    held = Held(site, 2)
    site.nodes[1].produce(b"m1")
    await site.settle(30)
    held.change = says(error_code=ErrorCode.FENCED_LEADER_EPOCH)
    await site.lead(1, 1)
    held.release()
    await quiet()
    followed = list(site.nodes[2].fetchers.followed)
    assert [one.failure_count for one in followed] == [0]
    await site.settle(200)
    assert records(site, 2) == [b"m1"]


async def test_a_refusal_of_this_epoch_does_not_end_it_either(site: Site) -> None:
    """R-06: the leader's next word may never come; asking again costs nearly nothing."""
    await site.lead(1, 0, to=(1, 3))
    await site.lead(1, 1, to=(2,))
    site.nodes[1].produce(b"m1")
    await site.settle(300)
    assert records(site, 2) == []
    await site.lead(1, 1, to=(1, 3))
    await site.settle(300)
    assert records(site, 2) == [b"m1"]


async def test_a_fetcher_that_lost_the_partition_does_not_truncate(site: Site) -> None:
    """R-07: what another fetcher appends is not the first one's to cut."""
    await site.lead(1)
    site.nodes[1].produce(*values(4))
    await site.settle(600)
    held = Held(site, 2)
    site.nodes[1].produce(*values(1, 4))
    await site.settle(30)
    assert held.count == 1
    held.change = says(diverging_epoch=EpochEndOffset(0, 1))
    site.cut = {(2, 3)}
    await site.lead(3, 1)
    held.release()
    await site.settle(100)

    assert records(site, 2) == values(4)
    site.cut.clear()
    await site.settle()
    assert records(site, 2) == records(site, 3)


async def test_a_cut_that_waits_for_the_log_asks_again_before_it_cuts(site: Site) -> None:
    """R-07: a flush may hold the log for seconds, and meanwhile another leader is followed."""
    await site.lead(1)
    site.nodes[1].produce(*values(4))
    await site.settle(600)
    log = site.nodes[2].partition().log
    held = Held(site, 2)
    site.nodes[1].produce(*values(1, 4))
    await site.settle(30)
    held.change = says(diverging_epoch=EpochEndOffset(0, 1))
    await log.lock.acquire()
    held.release()
    await quiet()
    assert any(name.startswith("cutting") for name in site.nodes[2].tasks.names)
    # Out of reach, so that what is cut stays cut.
    site.cut = {(2, 3)}
    role = asyncio.create_task(site.lead(3, 1))
    await quiet()
    assert site.nodes[2].partition().replica.leader_epoch == 1
    log.lock.release()
    await role
    await site.settle(100)

    assert records(site, 2) == values(4)


async def test_a_new_leader_begins_where_a_cut_under_way_ends(site: Site) -> None:
    """R-07, P-03: an epoch that began beyond the log's end would hide divergence for ever."""
    await site.lead(1)
    site.nodes[1].produce(*values(2))
    site.nodes[1].produce(*values(2, 2))
    await site.settle(600)
    partition = site.nodes[2].partition()
    # A reply is being sent from the file, so the cut waits a little for it (S-20).
    lent = partition.log.read(0, 1000, 4, True)
    held = Held(site, 2)
    site.nodes[1].produce(*values(1, 4))
    await site.settle(30)
    held.change = says(diverging_epoch=EpochEndOffset(0, 2))
    held.release()
    await quiet()
    assert partition.log.refusal is not None
    assert not partition.is_open
    role = asyncio.create_task(site.lead(2, 1, to=(2,)))
    await quiet()
    assert partition.replica.follows(0)
    await site.clock.advance(100)
    assert partition.replica.follows(0)
    for _ in range(4):
        await site.clock.advance(100)
    await role

    assert partition.replica.is_leader
    assert site.nodes[2].partition().is_open
    assert partition.replica.history.epochs.start_of(1) == 2
    assert partition.log.log_end_offset == 2
    assert lent.region is not None


async def test_a_partition_taken_away_while_it_is_cut_comes_back_whole(site: Site) -> None:
    """P-04: half a cut cannot be given to the next who opens the log."""
    # The cut begins with a promise less, which takes a slow disk its time.
    plan = FaultPlan()
    await site.nodes[2].stop()
    site.nodes[2].disk = FaultyDisk(MemoryDisk(), plan, site.clock)
    await site.nodes[2].start()
    await site.lead(1)
    site.nodes[1].produce(*values(2))
    site.nodes[1].produce(*values(2, 2))
    await site.settle(600)
    old = site.nodes[2].partition()
    await old.flush()
    held = Held(site, 2)
    site.nodes[1].produce(*values(1, 4))
    await site.settle(30)
    held.change = says(diverging_epoch=EpochEndOffset(0, 2))
    plan.add(DiskFault(frozenset({"fsync", "rename"}), 0, "recovery-point", delay_ms=300))
    held.release()
    await quiet()
    assert old.log.refusal is not None
    await site.drop(2, 0)
    site.cut = {(2, 1)}
    role = asyncio.create_task(site.lead(1, 1, to=(2,)))
    await quiet()
    for _ in range(20):
        await site.clock.advance(100)
    await role
    partition = site.nodes[2].partition()
    assert partition is not old
    assert not old.is_open
    assert partition.replica.log_end_offset == partition.log.log_end_offset == 2

    plan.clear()
    site.cut.clear()
    await site.lead(1, 2)
    await site.settle()
    assert len(site.contents()) == 1


async def test_of_an_answer_with_a_diverging_epoch_only_the_cut_counts(site: Site) -> None:
    """R-08: its watermark is about other records than those which are here."""
    await site.lead(1)
    site.nodes[1].produce(*values(2))
    site.nodes[1].produce(*values(2, 2))
    await site.settle(50)
    site.cut = {(2, 1), (3, 1)}
    node = site.nodes[2]
    await site.settle(600)
    watermark = node.partition().replica.high_watermark
    held = Held(site, 2)
    site.cut = {(3, 1)}
    await site.settle(50)
    site.nodes[1].produce(b"m")
    await site.settle(30)
    seen: list[int] = []
    replica = node.partition().replica
    move = replica._set_watermark

    def spy(high_watermark: int) -> bool:
        seen.append(high_watermark)
        return move(high_watermark)

    replica._set_watermark = spy  # type: ignore[method-assign]  # only watched
    held.change = says(diverging_epoch=EpochEndOffset(0, 2), high_watermark=120)
    held.release()
    await quiet()

    # The first move is the cut's; what the next, real answer says comes after it.
    assert seen
    assert max(watermark, seen[0]) <= 2


async def test_an_out_of_range_answer_deletes_no_records(site: Site) -> None:
    """R-27: this may be the only other copy."""
    await site.lead(1)
    site.nodes[1].produce(*values(4))
    await site.settle(600)
    for start in (-1, 0, 4):
        held = Held(site, 2)
        site.nodes[1].produce(b"m")
        await site.settle(30)
        held.change = says(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=start)
        held.release()
        await site.settle(300)
        assert records(site, 2)[:4] == values(4)
        assert len(site.contents()) == 1


async def test_a_stale_answer_with_a_later_log_start_deletes_no_records(site: Site) -> None:
    """R-27: of the epoch before, it says nothing about the leader that is followed now."""
    await site.lead(1)
    site.nodes[1].produce(*values(4))
    await site.settle(600)
    held = Held(site, 2)
    site.nodes[1].produce(b"m")
    await site.settle(30)
    held.change = says(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=90)
    site.cut = {(2, 3)}
    await site.lead(3, 1)
    held.release()
    await site.settle(100)
    assert records(site, 2) == values(4)


async def test_a_stop_waits_for_a_cut_under_way(site: Site) -> None:
    """P-04: cancelled half-way, the log could not be closed as one that was stopped cleanly."""
    await site.lead(1)
    site.nodes[1].produce(*values(2))
    site.nodes[1].produce(*values(2, 2))
    await site.settle(600)
    node = site.nodes[2]
    partition = node.partition()
    lent = partition.log.read(0, 1000, 4, True)
    held = Held(site, 2)
    site.nodes[1].produce(*values(1, 4))
    await site.settle(30)
    held.change = says(diverging_epoch=EpochEndOffset(0, 2))
    held.release()
    await quiet()
    assert partition.log.refusal is not None
    node.partitions.close()
    stopping = asyncio.create_task(node.fetchers.stop())
    await quiet()
    assert not stopping.done()
    for _ in range(4):
        await site.clock.advance(100)
    await stopping

    assert node.partition().log.refusal is None
    assert partition.log.log_end_offset == 2
    assert not partition.is_open
    assert lent.region is not None
    assert node.logs is not None
    node.is_running = False
    assert await node.logs.close(1)

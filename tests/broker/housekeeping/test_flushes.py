"""Flushes that appends have made due: no append waits for a flush that does not come."""

from __future__ import annotations

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from tests.broker.support.node import HandClock, quiet
from tests.broker.support.shard_site import Put, ShardSite

SLOW = DiskFault(frozenset({"fsync"}), 0, ".log", delay_ms=100)


async def test_what_is_appended_during_a_flush_is_flushed_after_it() -> None:
    """With flush.messages=2 the third message has to wait, and what is left after the flush of the
    first two makes no other flush due: the group would wait for the next append."""
    plan, clock = FaultPlan(), HandClock()
    site = ShardSite(FaultyDisk(MemoryDisk(), plan, clock), {"flush.messages": "2"})
    await site.loaded()
    plan.add(SLOW)
    assert site.ask(Put(b"first", b"1")) == ["stored"]
    during = site.ask(Put(b"second", b"2"))
    await quiet()
    behind = site.ask(Put(b"third", b"3"))
    await quiet()
    assert (during, behind) == ([], [])

    for _ in range(4):
        await clock.advance(100)
        await quiet()

    assert (during, behind) == (["stored"], ["stored"])
    await site.stop()

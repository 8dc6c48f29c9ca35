"""Faults strike where and as often as planned, and leave what a real one leaves."""

from __future__ import annotations

import errno

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk, read_only


async def test_a_fault_strikes_its_path_and_its_turn_only() -> None:
    """A test that cannot aim finds nothing."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan)
    plan.add(DiskFault(frozenset({"fsync"}), path_part=".log", after=1, times=1))
    log, index = disk.open("/0.log", create=True), disk.open("/0.index", create=True)

    await index.fsync()
    await log.fsync()
    with pytest.raises(OSError, match="Input/output"):
        await log.fsync()
    await log.fsync()
    assert plan.hits == 1


def test_a_failing_append_leaves_half_of_it() -> None:
    """The log must cut off what a failed write left behind (S-11)."""
    plan = FaultPlan()
    file = FaultyDisk(MemoryDisk(), plan).open("/0.log", create=True)
    file.append([b"good"])
    plan.add(DiskFault(frozenset({"append"}), errno.ENOSPC))

    with pytest.raises(OSError, match="No space"):
        file.append([b"ba", b"d!"])

    assert file.pread(10, 0) == b"goodba"
    plan.clear()
    file.truncate(4)
    assert file.append([b"!"]) == 1


async def test_a_read_only_disk_still_reads() -> None:
    """Reads that go on working are what makes a dying disk deceptive (S-12)."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan)
    file = disk.open("/0.log", create=True)
    file.append([b"good"])
    plan.add(read_only())

    assert disk.open("/0.log").pread(4, 0) == b"good"
    for write in (lambda: disk.open("/new", create=True), lambda: file.truncate(0)):
        with pytest.raises(OSError, match="Read-only"):
            write()
    with pytest.raises(OSError, match="Read-only"):
        await disk.rename("/0.log", "/1.log")
    assert await disk.scan("/") == ["0.log"]

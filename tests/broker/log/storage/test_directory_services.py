"""What logs share: a bound on open files, a late_deletions, saves that many callers share."""

from __future__ import annotations

import asyncio
import errno

import pytest

from ottla.broker.log.storage.coalescing import CoalescedSave
from ottla.broker.log.storage.directory_services import DelayedDeletions, OpenSegments
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.log.storage.lent_file import LentFile, watch
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import KafkaError
from ottla.protocol.ports import FileRegion
from tests.broker.log.crash_disk import CrashDisk


class Handle:
    """Something that can be closed, or cannot yet."""

    def __init__(self, *, dirty: bool = False) -> None:
        self.is_used = False
        self.dirty = dirty
        self.is_open = True

    def release(self) -> bool:
        if not self.dirty:
            self.is_open = False
        return not self.dirty


def test_beyond_the_limit_the_oldest_unused_are_closed() -> None:
    """S-30: the descriptor limit belongs to connections as well."""
    pool = OpenSegments(3)
    handles = [Handle() for _ in range(5)]
    handles[0].is_used = True
    for handle in handles:
        pool.opened(handle)
    pool.trim()

    assert [handle.is_open for handle in handles] == [True, False, False, True, True]
    assert len(pool) == 3
    pool.trim()
    assert len(pool) == 3


def test_unsynced_files_stay_open_even_beyond_the_limit() -> None:
    """S-09: only the descriptor that wrote hears that a write-back failed."""
    pool = OpenSegments(2)
    handles = [Handle(dirty=True) for _ in range(4)]
    for handle in handles:
        pool.opened(handle)
    pool.trim()
    assert all(handle.is_open for handle in handles)

    for handle in handles:
        handle.dirty = False
    pool.trim()
    assert len(pool) == 2
    pool.closed(handles[3])
    pool.closed(handles[3])
    assert len(pool) == 1


def test_idle_files_are_closed_at_the_second_look() -> None:
    """The first look takes the used mark away."""
    pool = OpenSegments(10)
    handle = Handle()
    handle.is_used = True
    pool.opened(handle)
    pool.release_idle()
    assert handle.is_open
    pool.release_idle()
    assert not handle.is_open


async def test_graves_are_dug_when_they_are_due() -> None:
    """Files and directories alike; what is gone already is fine."""
    disk = CrashDisk()
    late_deletions = DelayedDeletions(disk, DirectoryHealth(disk, "/"))
    disk.make_directory("/old/deep")
    disk.open("/file", create=True)
    late_deletions.schedule("/old", 100, is_directory=True)
    late_deletions.schedule("/file", 200)
    late_deletions.schedule("/never", 100)

    assert await late_deletions.delete_due(99) == 0
    assert await late_deletions.delete_due(150) == 2
    assert not disk.exists("/old")
    assert disk.exists("/file")
    assert await late_deletions.delete_due(200) == 1
    assert len(late_deletions) == 0


async def test_what_could_not_be_removed_stays_buried() -> None:
    """The path is named, and the rest of the due ones are not forgotten."""
    disk = CrashDisk()
    health = DirectoryHealth(disk, "/")
    late_deletions = DelayedDeletions(disk, health)
    for name in ("/a", "/b", "/c"):
        disk.open(name, create=True)
        late_deletions.schedule(name, 0)
    disk.faults.add(DiskFault(frozenset({"unlink"}), errno.EIO, "/b"))
    with pytest.raises(KafkaError, match="cannot delete /b"):
        await late_deletions.delete_due(0)
    assert len(late_deletions) == 2
    assert health.failure is not None


def test_a_failure_is_told_once_and_to_latecomers_at_once() -> None:
    """The broker must hand over leaderships even when the listener registers after the failure."""
    health = DirectoryHealth(CrashDisk(), "/d1")
    told: list[str] = []
    health.on_failure(lambda: told.append("early"))
    health.latch("cannot read", OSError(errno.EIO, "broken"))
    health.latch("cannot read", OSError(errno.EIO, "broken again"))
    health.on_failure(lambda: told.append("late"))

    assert told == ["early", "late"]
    with pytest.raises(KafkaError, match=r"/d1 is offline: cannot read: broken$"):
        health.ensure_online()


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC])
def test_scarcity_is_no_reason_to_give_a_disk_up(error: int) -> None:
    """Descriptors, memory and space come back; the bytes on the disk are as they were."""
    health = DirectoryHealth(CrashDisk(), "/d1")
    health.judge("cannot open", OSError(error, "scarce"))
    assert health.is_online
    health.judge("cannot open", OSError(errno.EIO, "broken"))
    assert not health.is_online


async def test_a_thousand_saves_at_once_cost_two_writes() -> None:
    """One role change of a broker truncates all its partitions."""
    runs: list[int] = []
    state = 0

    async def save() -> None:
        seen = state
        await asyncio.sleep(0)
        runs.append(seen)

    saver = CoalescedSave(save)
    states: list[int] = []

    async def change() -> None:
        nonlocal state
        state += 1
        mine = state
        await saver()
        states.append(max(runs) - mine)

    await asyncio.gather(*(change() for _ in range(1000)))
    assert len(runs) == 2
    assert min(states) >= 0, "each caller's state was in a write that began after it"


async def test_a_save_that_failed_is_tried_again_by_the_next_caller() -> None:
    """A caller must not take the failure of another caller's save for success."""
    attempts = 0

    async def save() -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError(errno.ENOSPC, "full")

    saver = CoalescedSave(save)
    results = await asyncio.gather(saver(), saver(), return_exceptions=True)
    assert isinstance(results[0], OSError)
    assert results[1] is None


def test_a_lent_file_is_held_until_the_last_reply_is_sent() -> None:
    """S-20: truncation uses this to know that no reply still reads the part that it removes."""
    disk = CrashDisk()
    file = LentFile(disk.open("/0.log", create=True))
    file.append([b"abc", b"def"])
    is_held = watch(file)
    region = FileRegion(file, 1, 4)
    del file

    assert is_held()
    assert region.read() == b"bcde"
    assert region.file.size_bytes == 6
    assert region.file.is_resident(0, 6)
    assert region.file.path == "/0.log"
    del region
    assert not is_held()

"""The disk in memory behaves as the real one where the broker can tell."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from ottla.broker.system.memory_disk import INLINE_BYTES_MAX, MemoryDisk


def test_appended_buffers_are_read_back_in_order() -> None:
    """The log writes header and records as separate buffers and reads them as one."""
    file = MemoryDisk().open("/log", create=True)

    assert file.append([b"head", bytearray(b"body"), memoryview(b"tail")]) == 12
    assert file.pread(100, 4) == b"bodytail"
    assert file.size_bytes == 12


def test_a_file_that_outgrows_its_array_keeps_its_bytes() -> None:
    """The move into a kernel file must not be visible."""
    file = MemoryDisk().open("/log", create=True)
    half = os.urandom(INLINE_BYTES_MAX - 1)

    file.append([half])
    file.append([b"xyz"])

    assert file.pread(INLINE_BYTES_MAX + 10, 0) == half + b"xyz"
    file.truncate(3)
    file.append([b"!"])
    assert file.pread(10, 0) == half[:3] + b"!"


def test_a_file_in_memory_leaves_by_sendfile() -> None:
    """Zero-copy fetches are the point of using an anonymous file."""
    file = MemoryDisk().open("/log", create=True)
    file.append([b"records"])
    left, right = socket.socketpair()
    with left, right:
        assert os.sendfile(left.fileno(), file.fileno(), 0, 7) == 7
        assert right.recv(10) == b"records"
    file.append([b" and more"])
    assert file.pread(100, 0) == b"records and more"


async def test_a_deleted_segment_stays_readable_through_its_handle() -> None:
    """A reply that is still being sent must not see the file vanish."""
    disk = MemoryDisk()
    file = disk.open("/log", create=True)
    file.append([b"x" * (INLINE_BYTES_MAX + 1)])

    await disk.unlink("/log")

    assert not disk.exists("/log")
    assert file.pread(2, 0) == b"xx"
    assert disk.free_bytes("/") == MemoryDisk().free_bytes("/")


async def test_renaming_a_directory_moves_all_below_it() -> None:
    """Deleting a topic renames its directory first."""
    disk = MemoryDisk()
    disk.make_directory("/data/topic-0/deep")
    disk.open("/data/topic-0/0.log", create=True).append([b"x"])

    await disk.rename("/data/topic-0", "/data/topic-0.gone-delete")

    assert await disk.scan("/data") == ["topic-0.gone-delete"]
    assert await disk.scan("/data/topic-0.gone-delete") == ["0.log", "deep"]
    assert disk.open("/data/topic-0.gone-delete/0.log").pread(1, 0) == b"x"
    await disk.remove_tree("/data/topic-0.gone-delete")
    assert await disk.scan("/data") == []


async def test_rename_replaces_the_target() -> None:
    """Checkpoints are written beside and renamed over the old one."""
    disk = MemoryDisk()
    disk.open("/new", create=True).append([b"new"])
    disk.open("/old", create=True).append([b"old"])

    await disk.rename("/new", "/old")

    assert disk.open("/old").pread(9, 0) == b"new"
    assert await disk.scan("/") == ["old"]


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    """A partial batch at the end of the file is what the log must clean up (S-11)."""
    disk = MemoryDisk(capacity_bytes=10)
    file = disk.open("/log", create=True)

    with pytest.raises(OSError, match="No space") as full:
        file.append([b"12345678", b"12345678"])

    assert full.value.errno == errno.ENOSPC
    assert (file.size_bytes, disk.free_bytes("/")) == (10, 0)
    file.truncate(8)
    assert disk.free_bytes("/") == 2


def test_opening_what_is_not_there_fails() -> None:
    """The neighbours of a good open: no file, no directory, a directory."""
    disk = MemoryDisk()
    disk.make_directory("/data")

    with pytest.raises(FileNotFoundError):
        disk.open("/data/x")
    with pytest.raises(FileNotFoundError):
        disk.open("/none/x", create=True)
    with pytest.raises(IsADirectoryError):
        disk.open("/data")


def test_a_lock_is_taken_once_until_released() -> None:
    """Two brokers on one data directory would destroy it."""
    disk = MemoryDisk()
    lock = disk.lock("/.lock")

    with pytest.raises(BlockingIOError):
        disk.lock("/.lock")
    lock.release()
    disk.lock("/.lock").release()

"""The real disk, worker threads and process, on a temporary directory and both event loops."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from ottla.broker.cli.serving import real_ports
from ottla.broker.system.real_disk import RESERVED_FROM_BYTES, RealDisk, RealOffload, RealProcess
from tests.support.loops import on_both_loops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def offload() -> Iterator[RealOffload]:
    threads = RealOffload(2)
    yield threads
    threads.close()


@pytest.fixture
def disk(offload: RealOffload) -> RealDisk:
    return RealDisk(offload)


def test_append_adds_all_buffers_at_the_end_and_knows_the_size(
    disk: RealDisk, tmp_path: Path
) -> None:
    """The log takes base positions from the size, so it may never be guessed."""
    path = str(tmp_path / "log")
    file = disk.open(path, create=True)
    written = file.append([b"ab", bytearray(b"cd"), memoryview(b"ef")])
    file.append([b"gh"])

    assert (written, file.size_bytes) == (6, 8)
    assert file.pread(100, 2) == b"cdefgh"
    assert disk.open(path).size_bytes == 8


def blocks_behind_the_end(path: str) -> int:
    """Bytes that the file system holds for a file beyond those that can be read."""
    found = os.stat(path)
    return max(0, found.st_blocks * 512 - -(-found.st_size // 4096) * 4096)


@pytest.mark.skipif(sys.platform != "linux", reason="reserving is Linux's")
def test_blocks_are_reserved_for_a_growing_file_and_given_back(
    disk: RealDisk, tmp_path: Path
) -> None:
    """Appending to reserved blocks is a third cheaper; kept, they would fill the disk."""
    path = str(tmp_path / "log")
    file = disk.open(path, create=True)
    file.append([bytes(RESERVED_FROM_BYTES)])
    reserved_bytes = blocks_behind_the_end(path)
    if not reserved_bytes:
        pytest.skip("this file system does not reserve")
    size_bytes = disk.open(path).size_bytes
    file.append([b"x"])
    file.truncate(file.size_bytes)

    assert size_bytes == RESERVED_FROM_BYTES
    assert reserved_bytes <= RESERVED_FROM_BYTES + 4096
    assert blocks_behind_the_end(path) == 0
    assert disk.open(path).pread(2, RESERVED_FROM_BYTES) == b"x"


@pytest.mark.skipif(sys.platform != "linux", reason="reserving is Linux's")
def test_appends_go_on_where_blocks_cannot_be_reserved(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every file system can, and a nearly full one will not."""
    monkeypatch.setattr("ottla.broker.system.real_disk.RESERVE", 0)
    path = str(tmp_path / "log")
    file = disk.open(path, create=True)
    for _ in range(3):
        file.append([bytes(RESERVED_FROM_BYTES)])

    assert blocks_behind_the_end(path) == 0
    assert file.size_bytes == disk.open(path).size_bytes == 3 * RESERVED_FROM_BYTES


def test_append_of_more_buffers_than_one_call_takes_writes_all_of_them(
    disk: RealDisk, tmp_path: Path
) -> None:
    """One produce request may carry batches for more than 1024 slices."""
    file = disk.open(str(tmp_path / "log"), create=True)
    buffers = [bytes([number % 251]) * 3 for number in range(3000)]

    assert file.append(buffers) == 9000
    assert file.pread(9000, 0) == b"".join(buffers)


def test_failed_append_reports_the_size_the_file_really_has(disk: RealDisk, tmp_path: Path) -> None:
    """A full disk leaves a torn tail, which the log must cut before the next append."""
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append([b"x" * 100])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            file.append([b"y" * 60, b"z" * 60])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

    assert file.size_bytes == 150 == os.fstat(file.fileno()).st_size
    file.truncate(100)
    file.append([b"w"])
    assert file.pread(10, 99) == b"xw"


def test_opening_a_missing_file_without_create_is_an_error(disk: RealDisk, tmp_path: Path) -> None:
    """A segment that vanished must be noticed, not replaced by an empty one."""
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "gone"))


async def test_removed_file_stays_readable_while_something_refers_to_it(
    disk: RealDisk, tmp_path: Path
) -> None:
    """A reply that is being sent may point into a segment that retention has just removed."""
    path = str(tmp_path / "log")
    file = disk.open(path, create=True)
    file.append([b"content"])
    await disk.unlink(path)
    await disk.unlink(path)
    descriptor = file.fileno()

    assert not disk.exists(path)
    assert file.pread(7, 0) == b"content"
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_written_content_is_resident_and_past_the_end_too(disk: RealDisk, tmp_path: Path) -> None:
    """Fresh appends must never take the detour through a worker thread."""
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append([bytes(1_000_000)])

    assert file.is_resident(0, 1_000_000)
    assert file.is_resident(999_999, 100)
    assert file.is_resident(5_000_000, 1)


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux can tell")
async def test_content_that_left_the_page_cache_is_not_resident(
    disk: RealDisk, tmp_path: Path
) -> None:
    """sendfile of a cold segment would stop every connection of the broker (P-06)."""
    file = disk.open(str(tmp_path / "log"), create=True)
    file.append([os.urandom(1_000_000)])
    await file.fsync()
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if file.is_resident(0, 1_000_000):
        pytest.skip("this file system lives in memory")

    file.pread(1_000_000, 0)
    assert file.is_resident(0, 1_000_000)


def test_lock_is_exclusive_until_released(disk: RealDisk, tmp_path: Path) -> None:
    """Two brokers on one directory would interleave their logs."""
    path = str(tmp_path / ".lock")
    lock = disk.lock(path)
    with pytest.raises(BlockingIOError):
        disk.lock(path)
    lock.release()
    lock.release()

    disk.lock(path).release()


def test_lock_dies_with_its_process(disk: RealDisk, tmp_path: Path) -> None:
    """After kill -9 the broker must start again although its lock file is still there."""
    path = str(tmp_path / ".lock")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from ottla.broker.system.real_disk import RealDisk, RealOffload\n"
            "lock = RealDisk(RealOffload(1)).lock(sys.argv[1])\n"
            "print('held', flush=True)\n"
            "time.sleep(60)",
            path,
        ],
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            disk.lock(path)
        holder.kill()
        holder.wait()

    disk.lock(path).release()


@on_both_loops
async def test_directory_calls_do_what_they_say(disk: RealDisk, tmp_path: Path) -> None:
    """Recovery lists, renames and removes; what is gone already is never an error."""
    parent = str(tmp_path / "a" / "b")
    disk.make_directory(parent)
    disk.make_directory(parent)
    for name in ("2", "1", "3"):
        disk.open(f"{parent}/{name}", create=True)
    await disk.rename(f"{parent}/3", f"{parent}/1")
    await disk.fsync_directory(parent)

    assert await disk.scan(parent) == ["1", "2"]
    assert disk.is_directory(parent)
    assert not disk.is_directory(f"{parent}/1")
    assert disk.free_bytes(parent) > 0
    await disk.remove_tree(str(tmp_path / "a"))
    await disk.remove_tree(str(tmp_path / "a"))
    assert not disk.exists(parent)
    with pytest.raises(FileNotFoundError):
        await disk.scan(parent)


@on_both_loops
async def test_cancelled_waiter_does_not_take_back_queued_work(tmp_path: Path) -> None:
    """A request that gives up must not undo an fsync that others were promised (P-04)."""
    offload = RealOffload(1)
    gate = threading.Event()
    done: list[str] = []
    first = asyncio.ensure_future(offload.run(gate.wait, 10))
    second = asyncio.ensure_future(offload.run(done.append, "second"))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    gate.set()
    await first
    offload.close()

    assert second.cancelled()
    assert done == ["second"]


@on_both_loops
async def test_first_stop_signal_calls_back_and_the_second_kills() -> None:
    """A broker that hangs while stopping must still obey a second Ctrl-C."""
    before = signal.getsignal(signal.SIGTERM)
    process = RealProcess()
    stopped = asyncio.Event()
    process.on_stop(stopped.set)
    os.kill(process.pid, signal.SIGTERM)
    await stopped.wait()

    assert signal.getsignal(signal.SIGTERM) is before is signal.SIG_DFL


def test_abort_says_why_and_ends_without_clean_up() -> None:
    """After a failed fsync nothing may run that could write again (S-09)."""
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import atexit\n"
            "from ottla.broker.system.real_disk import RealProcess\n"
            "atexit.register(print, 'cleaned up')\n"
            "RealProcess().abort('disk is gone')",
        ],
        capture_output=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr == b"fatal: disk is gone\n"


@on_both_loops
async def test_flushes_that_wait_for_a_slow_device_hold_up_no_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four segments of a log are flushed side by side; a retention that has to rename a file, or a
    batch to be decompressed, must not wait for them."""
    offload, flushers = RealOffload(1), RealOffload(4, "flush")
    disk = RealDisk(offload, flushers)
    gate = threading.Event()
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _descriptor: gate.wait(60), raising=False)
    files = [disk.open(str(tmp_path / str(number)), create=True) for number in range(4)]
    flushes = [asyncio.ensure_future(one.fsync()) for one in files]
    flushes.append(asyncio.ensure_future(disk.fsync_directory(str(tmp_path))))
    # They are handed to their threads first.
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        names = await disk.scan(str(tmp_path))
    were_done = [one.done() for one in flushes]
    gate.set()
    await asyncio.gather(*flushes)
    offload.close()
    flushers.close()

    assert names == ["0", "1", "2", "3"]
    assert were_done == [False] * 5


def test_a_broker_that_is_started_flushes_with_threads_of_their_own() -> None:
    """Otherwise four flushes take all of its worker threads."""
    disk = real_ports(memory=False).disk

    assert isinstance(disk, RealDisk)
    assert disk._flushers is not disk._offload

"""The real disk, worker threads and process, behind the seams of ``protocol/ports.py``.

What only touches the page cache runs inline on the event loop; what may wait for the device is
sent to a worker thread. ``wire/clock.py`` has the clock, ``wire/real.py`` the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from ottla.broker.system.process_usage import process_families
from ottla.wire.signals import hangups

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from types import FrameType

    from ottla.broker.metrics.exposition import Family
    from ottla.protocol.ports import Buffer, Offload, Result

BUFFERS_PER_CALL_MAX = 1024  # Linux's UIO_MAXIOV
BINARY: int = getattr(os, "O_BINARY", 0)
READ_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)  # Linux 4.14
BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"  # Linux; other systems have none
# Blocks are reserved for a file that has grown to so much, and never more at once than it has.
RESERVED_FROM_BYTES = 1024 * 1024
RESERVED_BYTES_MAX = 16 * 1024 * 1024
NEVER = 2**63 - 1
# Linux: reserve blocks behind the end without moving it (``FS_IOC_RESVSP``, from linux/falloc.h).
RESERVE = 0x40305828
RESERVE_REQUEST = struct.Struct("hh4xqqiI16x")
PROBE_STRIDE_BYTES = 256 * 1024
PROBES_MAX = 16


class RealOffload:
    """Worker threads. Submitted work runs to its end even if its caller has stopped waiting."""

    __slots__ = ("_executor",)

    def __init__(self, threads: int = 4, name: str = "offload") -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def run(self, function: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        running = asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)
        # Without the shield a cancelled waiter would take back work that is still queued, such
        # as an fsync that others rely on (P-04).
        return asyncio.shield(running)

    def close(self) -> None:
        """Wait for the work that was handed in, then end the threads."""
        self._executor.shutdown(wait=True)


class RealFile:
    """An open file. The last reference closes the descriptor, never anything else.

    For one that grows, blocks are reserved ahead: appending to reserved blocks costs the file
    system a third less. ``truncate``, even to the same size, gives them back and ends that."""

    __slots__ = ("_descriptor", "_flushers", "_reserve_at_bytes", "path", "size_bytes")

    def __init__(self, path: str, descriptor: int, flushers: Offload) -> None:
        self._descriptor = descriptor
        self._flushers = flushers
        self.path = path
        self.size_bytes = os.fstat(descriptor).st_size
        self._reserve_at_bytes = RESERVED_FROM_BYTES if sys.platform == "linux" else NEVER

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        with contextlib.suppress(OSError):
            close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def append(self, buffers: Sequence[Buffer]) -> int:
        try:
            if len(buffers) == 1:
                # Nearly always: one batch.
                total = len(buffers[0])
                written = os.write(self._descriptor, buffers[0])
            else:
                total = sum(map(len, buffers))
                written = write_some(self._descriptor, buffers)
            self.size_bytes += written
            if written < total:
                self._append_rest(buffers, written)
            if self.size_bytes >= self._reserve_at_bytes:
                self._reserve_more()
        except OSError:
            self.size_bytes = os.fstat(self._descriptor).st_size
            raise
        return total

    def _append_rest(self, buffers: Sequence[Buffer], written: int) -> None:
        # A full disk answers with a short write first and says ENOSPC only to the next one.
        rest = memoryview(b"".join(buffers))[written:]
        while rest:
            written = write_some(self._descriptor, [rest])
            self.size_bytes += written
            rest = rest[written:]

    def _reserve_more(self) -> None:
        """In place, since it takes 50 us for 16 MiB, and came too late from a worker."""
        step_bytes = min(self.size_bytes, RESERVED_BYTES_MAX)
        self._reserve_at_bytes = self.size_bytes + step_bytes
        if sys.platform == "win32":
            return
        request = RESERVE_REQUEST.pack(0, 0, self.size_bytes, step_bytes, 0, 0)
        try:
            fcntl.ioctl(self._descriptor, RESERVE, request)
        except OSError:
            # The file system cannot do it, or is nearly full; appends go on as they always do.
            self._reserve_at_bytes = NEVER

    def pread(self, count: int, position: int) -> bytes:
        if sys.platform == "win32":
            os.lseek(self._descriptor, position, os.SEEK_SET)
            return os.read(self._descriptor, count)
        found = os.pread(self._descriptor, count, position)
        if len(found) == count or position + len(found) >= self.size_bytes:
            return found
        # Linux moves at most 2 GiB per call and may stop early at a signal.
        pieces = [found]
        while found and count > len(found):
            position += len(found)
            count -= len(found)
            found = os.pread(self._descriptor, count, position)
            pieces.append(found)
        return b"".join(pieces)

    def is_resident(self, position: int, count: int) -> bool:
        """Looks at one byte per stride, and at the last one: reading ahead and eviction work on
        neighbouring pages, so holes between are rare, and a look costs half a microsecond."""
        end = min(position + count, self.size_bytes)
        if not READ_NOWAIT or position >= end:
            return True
        stride = max(PROBE_STRIDE_BYTES, (end - position) // PROBES_MAX)
        one_byte = [bytearray(1)]
        try:
            for probe in range(position, end, stride):
                os.preadv(self._descriptor, one_byte, probe, READ_NOWAIT)
            os.preadv(self._descriptor, one_byte, end - 1, READ_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the file system cannot tell
        return True

    def truncate(self, size_bytes: int) -> None:
        assert 0 <= size_bytes <= self.size_bytes
        self._reserve_at_bytes = NEVER
        os.ftruncate(self._descriptor, size_bytes)
        self.size_bytes = size_bytes

    async def fsync(self) -> None:
        # The bound method keeps this object, and so the descriptor, until the worker is done.
        await self._flushers.run(self._fsync)

    def _fsync(self) -> None:
        if sys.platform == "darwin":
            fcntl.fcntl(self._descriptor, fcntl.F_FULLFSYNC)  # fsync there stops at the drive
        elif sys.platform == "win32":
            os.fsync(self._descriptor)
        else:
            os.fdatasync(self._descriptor)


class RealFileLock:
    """A locked file. The kernel drops the lock when the process ends, however it ends."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor != -1:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDisk:
    """The file systems of this machine."""

    __slots__ = ("_flushers", "_offload")

    def __init__(self, offload: Offload, flushers: Offload | None = None) -> None:
        """``flushers``: threads for flushes alone. On a slow device an fsync takes seconds, and as
        many of them as there are threads would hold up all other work."""
        self._offload = offload
        self._flushers = offload if flushers is None else flushers

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_APPEND | BINARY | (os.O_CREAT if create else 0)
        return RealFile(path, os.open(path, flags, 0o644), self._flushers)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def free_bytes(self, path: str) -> int:
        return free_and_total(path)[0]

    def total_bytes(self, path: str) -> int:
        return free_and_total(path)[1]

    def absolute(self, path: str) -> str:
        return os.path.abspath(path).replace(os.sep, "/")

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def boot_id(self) -> str:
        try:
            with open(BOOT_ID_PATH, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def lock(self, path: str) -> RealFileLock:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            take_lock(descriptor, path)
        except OSError:
            os.close(descriptor)
            raise
        return RealFileLock(descriptor)

    async def scan(self, directory: str) -> list[str]:
        return sorted(await self._offload.run(os.listdir, directory))

    async def rename(self, source: str, target: str) -> None:
        await self._offload.run(os.replace, source, target)

    async def unlink(self, path: str) -> None:
        await self._offload.run(remove_file, path)

    async def remove_tree(self, directory: str) -> None:
        await self._offload.run(remove_tree, directory)

    async def fsync_directory(self, directory: str) -> None:
        if sys.platform != "win32":  # NTFS has no such call and journals names itself
            await self._flushers.run(fsync_directory, directory)


class RealProcess:
    """The process. SIGTERM, SIGINT and SIGHUP ask once; a second one has its usual deadly meaning.

    Under ``nohup`` SIGHUP stays ignored."""

    __slots__ = ()

    @property
    def pid(self) -> int:
        return os.getpid()

    def on_stop(self, callback: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT, *hangups())

        def stop() -> None:
            for stopping in signals:
                if sys.platform == "win32":
                    signal.signal(stopping, signal.SIG_DFL)
                else:
                    loop.remove_signal_handler(stopping)
            callback()

        def stop_soon(_number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(stop)

        for stopping in signals:
            if sys.platform == "win32":
                signal.signal(stopping, stop_soon)
            else:
                loop.add_signal_handler(stopping, stop)

    def usage(self) -> Iterator[Family]:
        """What the process takes of its machine, for who asks for figures."""
        return process_families()

    def abort(self, reason: str) -> NoReturn:
        with contextlib.suppress(OSError):
            os.write(2, f"fatal: {reason}\n".encode(errors="replace"))
        os._exit(1)


def write_some(descriptor: int, buffers: Sequence[Buffer]) -> int:
    """Write a prefix of the buffers at the end of the file; return its length."""
    if sys.platform == "win32":
        return os.write(descriptor, b"".join(buffers))
    return os.writev(descriptor, buffers[:BUFFERS_PER_CALL_MAX])


def free_and_total(path: str) -> tuple[int, int]:
    """Bytes free for this user, and the size, of the file system that holds the path."""
    if sys.platform == "win32":
        usage = import_module("shutil").disk_usage(path)
        return usage.free, usage.total
    volume = os.statvfs(path)
    return volume.f_bavail * volume.f_frsize, volume.f_blocks * volume.f_frsize


def take_lock(descriptor: int, path: str) -> None:
    if sys.platform == "win32":
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, "another process has it", path) from error
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_file(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(directory: str) -> None:
    """Remove the tree from the leaves up; other processes may remove parts at the same time."""
    for parent, directories, files in os.walk(directory, topdown=False):
        for name in files:
            remove_file(os.path.join(parent, name))
        for name in directories:
            below = os.path.join(parent, name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(below) if os.path.islink(below) else os.rmdir(below)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(directory)


def fsync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""A disk in memory whose power can be cut after any number of written bytes.

A cut keeps what was made durable and, of the rest, exactly a prefix chosen by the test.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer


class Content:
    """The bytes of one file, whatever its name is, and how many of them are durable."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.durable = bytes(data)


class PowerCutFile:
    """An open file of the disk."""

    def __init__(self, disk: PowerCutDisk, path: str, content: Content) -> None:
        self._disk = disk
        self.path = path
        self.content = content

    @property
    def size_bytes(self) -> int:
        return len(self.content.data)

    def fileno(self) -> int:
        raise NotImplementedError

    def append(self, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        if self._disk.free < len(data):
            self.content.data += data[: self._disk.free]
            raise OSError(errno.ENOSPC, "the test disk is full")
        self.content.data += data
        return len(data)

    def pread(self, count: int, position: int) -> bytes:
        return bytes(self.content.data[position : position + count])

    def is_resident(self, position: int, count: int) -> bool:
        return True

    def truncate(self, size_bytes: int) -> None:
        del self.content.data[size_bytes:]

    async def fsync(self) -> None:
        data = bytes(self.content.data)
        await self._disk.pause()
        self.content.durable = data
        self._disk.fsync_count += 1


class PowerCutLock:
    """A lock that the disk keeps in a set."""

    def __init__(self, disk: PowerCutDisk, path: str) -> None:
        self._disk, self._path = disk, path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class PowerCutDisk:
    """Names and contents, each with what of it would survive a power cut."""

    def __init__(self) -> None:
        self.names: dict[str, Content] = {}
        self.durable_names: dict[str, Content] = {}
        self.locks: set[str] = set()
        self.free = 1 << 40
        self.fsync_count = 0
        self.fsync_error: OSError | None = None

    async def pause(self) -> None:
        """Let others run while the device is busy; fail if the test wants it."""
        await asyncio.sleep(0)
        if self.fsync_error is not None:
            raise self.fsync_error

    def after_power_cut(self, kept_bytes: int | None = None) -> PowerCutDisk:
        """The disk as the next boot finds it, with that many bytes of each unsynced tail.

        None keeps every written byte, as after a kill: the page cache survives a process."""
        disk = PowerCutDisk()
        names = self.names if kept_bytes is None else self.durable_names
        for name, content in names.items():
            durable, written = content.durable, bytes(content.data)
            kept = written
            if kept_bytes is not None:
                tail = written[len(durable) :] if written.startswith(durable) else b""
                kept = durable + tail[:kept_bytes]
            disk.names[name] = disk.durable_names[name] = Content(kept)
        return disk

    def open(self, path: str, *, create: bool = False) -> PowerCutFile:
        if path not in self.names:
            if not create:
                raise FileNotFoundError(path)
            self.names[path] = Content()
        return PowerCutFile(self, path, self.names[path])

    def exists(self, path: str) -> bool:
        return path in self.names

    def is_directory(self, path: str) -> bool:
        return any(name.startswith(path + "/") for name in self.names)

    def free_bytes(self, path: str) -> int:
        return self.free

    def total_bytes(self, path: str) -> int:
        return self.free

    def absolute(self, path: str) -> str:
        return path

    def modified_ms(self, path: str) -> int:
        return -1

    def boot_id(self) -> str:
        return ""

    def make_directory(self, path: str) -> None:
        pass

    def lock(self, path: str) -> PowerCutLock:
        if path in self.locks:
            raise BlockingIOError(path)
        self.locks.add(path)
        return PowerCutLock(self, path)

    async def scan(self, directory: str) -> list[str]:
        return sorted(name.removeprefix(directory + "/") for name in self.names)

    async def rename(self, source: str, target: str) -> None:
        await self.pause()
        self.names[target] = self.names.pop(source)

    async def unlink(self, path: str) -> None:
        self.names.pop(path, None)

    async def remove_tree(self, directory: str) -> None:
        raise NotImplementedError

    async def fsync_directory(self, directory: str) -> None:
        await self.pause()
        self.durable_names = dict(self.names)

"""A disk in memory, for brokers that shall leave nothing behind.

Small files are byte arrays. A file that outgrows them, or whose descriptor is asked for, moves
into an anonymous kernel file, so that replies still leave by sendfile and hundreds of idle
partitions cost no descriptors. Nothing survives the process; an fsync has nothing to wait for.
"""

from __future__ import annotations

import errno
import os
import posixpath
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Buffer

# Where the platform cannot read at a position (Windows), files stay byte arrays for ever.
INLINE_BYTES_MAX = 64 * 1024 if hasattr(os, "pread") else 1 << 62
CAPACITY_BYTES = 1 << 40


def _anonymous_file() -> int:
    """A descriptor of a file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ottla-memory-disk", os.MFD_CLOEXEC)
    descriptor: int = import_module("ottla.broker.system.temporary").unnamed_file()
    return descriptor


class _Content:
    """The bytes of one file, shared by its name and by every handle; freed with the last one."""

    __slots__ = ("_descriptor", "_inline", "linked", "size_bytes")

    def __init__(self) -> None:
        self._inline: bytearray | None = bytearray()
        self._descriptor = -1
        self.size_bytes = 0
        self.linked = True

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self._descriptor >= 0:
            close(self._descriptor)

    def fileno(self) -> int:
        if self._inline is not None:
            descriptor = _anonymous_file()
            _write_all(descriptor, self._inline, 0)
            self._inline, self._descriptor = None, descriptor
        return self._descriptor

    def write_end(self, chunk: memoryview) -> None:
        if self._inline is not None and self.size_bytes + len(chunk) > INLINE_BYTES_MAX:
            self.fileno()
        if self._inline is not None:
            self._inline += chunk
        else:
            _write_all(self._descriptor, chunk, self.size_bytes)
        self.size_bytes += len(chunk)

    def pread(self, count: int, position: int) -> bytes:
        if self._inline is not None:
            return bytes(self._inline[position : position + count])
        return os.pread(self._descriptor, count, position)

    def truncate(self, size_bytes: int) -> None:
        if self._inline is not None and size_bytes <= self.size_bytes:
            del self._inline[size_bytes:]
        else:
            os.ftruncate(self.fileno(), size_bytes)
        self.size_bytes = size_bytes


def _write_all(descriptor: int, chunk: Buffer, position: int) -> None:
    view = memoryview(chunk)
    while view:
        written = os.pwrite(descriptor, view, position)
        view = view[written:]
        position += written


class MemoryFile:
    """``ports.File``: one handle of a file in memory."""

    __slots__ = ("_content", "_disk", "path")

    def __init__(self, disk: MemoryDisk, path: str, content: _Content) -> None:
        self._disk = disk
        self._content = content
        self.path = path

    @property
    def size_bytes(self) -> int:
        return self._content.size_bytes

    def fileno(self) -> int:
        return self._content.fileno()

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Writes what still fits, then raises ENOSPC, as a file system does."""
        written = 0
        for buffer in buffers:
            chunk = memoryview(buffer).cast("B")
            # A file without a name has given its place back and counts no more.
            room = self._disk.reserve(len(chunk)) if self._content.linked else len(chunk)
            self._content.write_end(chunk[:room])
            written += room
            if room < len(chunk):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        return written

    def pread(self, count: int, position: int) -> bytes:
        return self._content.pread(count, position)

    def is_resident(self, position: int, count: int) -> bool:
        return True

    def truncate(self, size_bytes: int) -> None:
        if self._content.linked:
            self._disk.give_back(self._content.size_bytes - size_bytes)
        self._content.truncate(size_bytes)

    async def fsync(self) -> None:
        """There is no device to wait for."""


class MemoryFileLock:
    """``ports.FileLock`` within one process."""

    __slots__ = ("_held", "_path")

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class MemoryDisk:
    """``ports.Disk``: a tree of names in one process, with a capacity it keeps to."""

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._used_bytes = 0
        self._files: dict[str, _Content] = {}
        self._directories: dict[str, set[str]] = {"/": set()}
        self._locks: set[str] = set()

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        path = _normal(path)
        content = self._files.get(path)
        if content is None:
            if path in self._directories:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if not create:
                raise _not_found(path)
            content = _Content()
            self._siblings(path).add(posixpath.basename(path))
            self._files[path] = content
        return MemoryFile(self, path, content)

    def exists(self, path: str) -> bool:
        return _normal(path) in self._files or self.is_directory(path)

    def is_directory(self, path: str) -> bool:
        return _normal(path) in self._directories

    def free_bytes(self, path: str) -> int:
        return self._capacity_bytes - self._used_bytes

    def total_bytes(self, path: str) -> int:
        return self._capacity_bytes

    def absolute(self, path: str) -> str:
        return _normal(path)

    def modified_ms(self, path: str) -> int:
        return -1

    def boot_id(self) -> str:
        return ""

    def make_directory(self, path: str) -> None:
        path = _normal(path)
        if path in self._directories:
            return
        if path in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self.make_directory(posixpath.dirname(path))
        self._siblings(path).add(posixpath.basename(path))
        self._directories[path] = set()

    def lock(self, path: str) -> MemoryFileLock:
        path = _normal(path)
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "the lock is taken", path)
        self.open(path, create=True)
        self._locks.add(path)
        return MemoryFileLock(self._locks, path)

    async def scan(self, directory: str) -> list[str]:
        names = self._directories.get(_normal(directory))
        if names is None:
            raise _not_found(directory)
        return sorted(names)

    async def rename(self, source: str, target: str) -> None:
        """Moves a file or a whole directory; a file or an empty directory there is replaced."""
        source, target = _normal(source), _normal(target)
        if source == target:
            return
        if not self.exists(source):
            raise _not_found(source)
        new_siblings = self._siblings(target)
        if source in self._files and target in self._directories:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        if self._directories.get(target):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        await self.remove_tree(target)
        self._siblings(source).discard(posixpath.basename(source))
        new_siblings.add(posixpath.basename(target))
        if source in self._files:
            self._files[target] = self._files.pop(source)
            return
        for path in self._below(source, self._files):
            self._files[target + path[len(source) :]] = self._files.pop(path)
        for path in [source, *self._below(source, self._directories)]:
            self._directories[target + path[len(source) :]] = self._directories.pop(path)

    async def unlink(self, path: str) -> None:
        path = _normal(path)
        if path in self._directories:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._forget_file(path)

    async def remove_tree(self, directory: str) -> None:
        directory = _normal(directory)
        for path in [directory, *self._below(directory, self._files)]:
            self._forget_file(path)
        for path in [directory, *self._below(directory, self._directories)]:
            self._directories.pop(path, None)
        if directory != "/":
            self._directories.get(posixpath.dirname(directory), set()).discard(
                posixpath.basename(directory)
            )
        else:
            self._directories["/"] = set()

    async def fsync_directory(self, directory: str) -> None:
        if not self.is_directory(directory):
            raise _not_found(directory)

    def reserve(self, count: int) -> int:
        """Take up to that much of the capacity and return what could be had."""
        room = min(count, self._capacity_bytes - self._used_bytes)
        self._used_bytes += room
        return room

    def give_back(self, count: int) -> None:
        """Return capacity."""
        self._used_bytes -= count

    def _forget_file(self, path: str) -> None:
        content = self._files.pop(path, None)
        if content is not None:
            content.linked = False
            self.give_back(content.size_bytes)
            self._siblings(path).discard(posixpath.basename(path))

    def _siblings(self, path: str) -> set[str]:
        names = self._directories.get(posixpath.dirname(path))
        if names is None:
            raise _not_found(path)
        return names

    def _below(self, directory: str, paths: dict[str, _Content] | dict[str, set[str]]) -> list[str]:
        prefix = directory.rstrip("/") + "/"
        return [path for path in list(paths) if path.startswith(prefix) and path != "/"]


def _normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def _not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

"""What every disk over a simulated file system does alike, whenever its operations take effect.

A disk says in ``enter`` what happens before each call: faults, death, delays.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ottla.broker.testing.faulty_disk import FaultPlan
from tests.simulation.world.inode import Inode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer
    from tests.simulation.world.filesystem import SimFileSystem

# A disk of that size has no limit: what is used need not be counted.
UNLIMITED_BYTES = 1 << 40


class ModelDisk(ABC):
    """The questions of ``ports.Disk``; operations that change something are the subclass's."""

    # Failures that leave half of an append written.
    TEARS: ClassVar[tuple[type[BaseException], ...]] = (OSError,)

    def __init__(self, files: SimFileSystem) -> None:
        self.files = files
        self.faults = FaultPlan()

    @abstractmethod
    def enter(self, operation: str, path: str) -> float:
        """Begin a call that changes nothing; return its extra delay in milliseconds."""

    @abstractmethod
    def change(self, operation: str, path: str) -> float:
        """Begin a call that changes something; return its extra delay in milliseconds."""

    def exists(self, path: str) -> bool:
        self.enter("exists", path)
        return self.files.find(path) is not None

    def is_directory(self, path: str) -> bool:
        self.enter("is_directory", path)
        node = self.files.find(path)
        return node is not None and not isinstance(node, Inode)

    def free_bytes(self, path: str) -> int:
        self.enter("free_bytes", path)
        return max(0, self.files.capacity_bytes - self.files.used_bytes())

    def total_bytes(self, path: str) -> int:
        self.enter("total_bytes", path)
        return self.files.capacity_bytes

    def absolute(self, path: str) -> str:
        return path

    def modified_ms(self, path: str) -> int:
        return -1

    def boot_id(self) -> str:
        return self.files.boot_id

    def room_bytes(self, wanted_bytes: int) -> int:
        """How much of that still fits."""
        if self.files.capacity_bytes >= UNLIMITED_BYTES:
            return wanted_bytes
        return min(wanted_bytes, max(0, self.files.capacity_bytes - self.files.used_bytes()))


class ModelFile:
    """``ports.File`` without ``is_resident`` and ``fsync``."""

    __slots__ = ("_inode", "_model", "path")

    def __init__(self, disk: ModelDisk, path: str, inode: Inode) -> None:
        self._model = disk
        self._inode = inode
        self.path = path

    @property
    def size_bytes(self) -> int:
        return len(self._inode.data)

    def fileno(self) -> int:
        raise AssertionError("a simulated file has no descriptor: use the Socket seam's sendfile")

    def append(self, buffers: Sequence[Buffer]) -> int:
        """A fault leaves half of what was asked, a full disk what fits."""
        disk = self._model
        content = b"".join(buffers)
        try:
            disk.change("append", self.path)
        except disk.TEARS:
            self._inode.write_end(content[: len(content) // 2])
            raise
        room = disk.room_bytes(len(content))
        self._inode.write_end(content[:room])
        if room < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        return len(content)

    def pread(self, count: int, position: int) -> bytes:
        self._model.enter("pread", self.path)
        return bytes(self._inode.data[position : position + count])

    def truncate(self, size_bytes: int) -> None:
        self._model.change("truncate", self.path)
        self._inode.truncate(size_bytes)

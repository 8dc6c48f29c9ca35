"""A segment's data file as it is lent to readers, with a way to see whether one still has it.

Replies hold the file they are sent from. Before a log is truncated in place, nobody may hold it
any more: the object handed out is the token of that (hazard S-20).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Buffer, File


class LentFile:
    """``ports.File``: the same file, but an object of which references can be watched."""

    __slots__ = ("__weakref__", "_file", "append", "fileno", "path")

    def __init__(self, file: File) -> None:
        self._file = file
        # A method that only passes on would cost as much as what it passes on.
        self.append: Callable[[Sequence[Buffer]], int] = file.append
        self.fileno: Callable[[], int] = file.fileno
        self.path = file.path

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def pread(self, count: int, position: int) -> bytes:
        return self._file.pread(count, position)

    def is_resident(self, position: int, count: int) -> bool:
        return self._file.is_resident(position, count)

    def truncate(self, size_bytes: int) -> None:
        self._file.truncate(size_bytes)

    async def fsync(self) -> None:
        await self._file.fsync()


def watch(file: LentFile) -> Callable[[], bool]:
    """Tells whether anybody still holds the file; the watcher does not count."""
    reference = weakref.ref(file)
    return lambda: reference() is not None

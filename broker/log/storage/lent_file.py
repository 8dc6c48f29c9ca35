"""A segment's data file as lent to readers, with a check whether one still holds it.

Replies hold the file that they are sent from. A log may be truncated in place only when no reply
holds its file any more; the lent object is the token for that (hazard S-20).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Buffer, File


class LentFile:
    """A ``ports.File`` whose references can be watched."""

    __slots__ = ("__weakref__", "_file", "append", "fileno", "path")

    def __init__(self, file: File) -> None:
        self._file = file
        # Bound directly: a delegating method would double the cost of a call.
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
    """Return a check whether the file is still referenced; the check itself does not count."""
    reference = weakref.ref(file)
    return lambda: reference() is not None

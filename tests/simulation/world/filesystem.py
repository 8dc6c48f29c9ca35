"""A simulated file system that outlives processes and loses to power cuts what was not synced.

Names are as volatile as bytes: creating, renaming and removing are durable only after an fsync of
the directory (hazard S-07). A rename is atomic but may be lost. A process kill loses nothing.
"""

from __future__ import annotations

import errno
import os
from itertools import count
from typing import TYPE_CHECKING

from tests.simulation.world.inode import Inode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world.random import SimRandom


class Directory:
    """Names now, names on the disk, and the changes between them in their order."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[Change] = []


Node = Inode | Directory


class Change:
    """One atomic operation on names; a rename may touch two directories."""

    __slots__ = ("edits", "number")

    def __init__(self, number: int, edits: list[tuple[Directory, str, Node | None]]) -> None:
        self.number = number
        self.edits = edits

    def make_durable(self) -> None:
        """The disk has it now."""
        for directory, name, node in self.edits:
            if node is None:
                directory.durable.pop(name, None)
            else:
                directory.durable[name] = node
            if self in directory.pending:
                directory.pending.remove(self)


class SimFileSystem:
    """One disk. Capacity is kept to; locks die with their process."""

    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.root = Directory()
        self.capacity_bytes = capacity_bytes
        self.locks: dict[str, object] = {}
        # What paths name, for as long as no name changes.
        self._found: dict[str, Node] = {}
        self._versions = count(1)
        self._boots = 1

    @property
    def boot_id(self) -> str:
        """Another one after each loss of power."""
        return f"boot {self._boots}"

    def find(self, path: str) -> Node | None:
        """The inode or directory at the path."""
        found = self._found.get(path)
        if found is None:
            found = self._look_for(path)
            if found is not None:
                self._found[path] = found
        return found

    def _look_for(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in _names(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name)
        return node

    def file(self, path: str) -> Inode:
        """Raises FileNotFoundError, IsADirectoryError."""
        node = self.find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        return node

    def directory(self, path: str) -> Directory:
        """Raises FileNotFoundError, NotADirectoryError."""
        node = self.find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return node

    def create(self, path: str) -> Inode:
        """A new empty file; its directory must exist."""
        parent, name = self._parent(path)
        inode = Inode(self._versions)
        self._change([(parent, name, inode)])
        return inode

    def make_directory(self, path: str) -> None:
        """With its parents."""
        node: Directory = self.root
        for name in _names(path):
            below = node.entries.get(name)
            if below is None:
                below = Directory()
                self._change([(node, name, below)])
            if not isinstance(below, Directory):
                raise _error(errno.EEXIST, path)
            node = below

    def rename(self, source: str, target: str) -> None:
        """Replaces a file or an empty directory."""
        node = self.find(source)
        if node is None:
            raise _error(errno.ENOENT, source)
        old = self.find(target)
        if old is node:
            return
        if isinstance(old, Directory) and (old.entries or isinstance(node, Inode)):
            raise _error(errno.ENOTEMPTY if old.entries else errno.EISDIR, target)
        from_parent, from_name = self._parent(source)
        to_parent, to_name = self._parent(target)
        self._change([(from_parent, from_name, None), (to_parent, to_name, node)])

    def remove(self, path: str) -> None:
        """A file, or a directory with all below it, one name at a time."""
        node = self.find(path)
        if node is None:
            return
        if isinstance(node, Directory):
            for name in list(node.entries):
                self.remove(f"{path.rstrip('/')}/{name}")
        if node is not self.root:
            parent, name = self._parent(path)
            self._change([(parent, name, None)])

    def used_bytes(self) -> int:
        """Bytes of all files that have a name."""
        return sum(len(inode.data) for _, inode in self.files())

    def files(self, *, durable: bool = False) -> Iterator[tuple[str, Inode]]:
        """Every file with its path, sorted; those certain to be found after a power cut only."""
        stack: list[tuple[str, Directory]] = [("", self.root)]
        while stack:
            prefix, directory = stack.pop()
            entries = directory.durable if durable else directory.entries
            for name in sorted(entries):
                node = entries[name]
                if isinstance(node, Directory):
                    stack.append((f"{prefix}/{name}", node))
                else:
                    yield f"{prefix}/{name}", node

    def begin_sync(self, directory: Directory) -> list[Change]:
        """Changes that a directory fsync which starts now must bring to the disk: the journal is
        ordered, so a rename includes earlier changes of its other directory."""
        changes = {change.number: change for change in directory.pending}
        last = max(changes, default=0)
        for change in directory.pending:
            for other, _, _ in change.edits:
                changes |= {c.number: c for c in other.pending if c.number <= last}
        return [changes[number] for number in sorted(changes)]

    def finish_sync(self, changes: list[Change]) -> None:
        """The changes are durable."""
        for change in changes:
            if any(change in directory.pending for directory, _, _ in change.edits):
                change.make_durable()

    def lose_power(self, random: SimRandom, *, ordered: bool) -> None:
        """Become what the disk happens to hold. ``ordered``: a prefix of all that was written, as
        a journal with ordered data and few files in flight mostly gives; otherwise anything."""
        self._boots += 1
        pending = {c.number: c for d in self._directories() for c in d.pending}
        if ordered:
            self._lose_all_after(random, pending)
            return
        keep = random.choice((0.0, 0.5, 0.9, 1.0))
        self._settle_names([pending[n] for n in sorted(pending) if random.chance(keep)])
        for _, inode in self.files():
            inode.lose_power(random)

    def _lose_all_after(self, random: SimRandom, pending: dict[int, Change]) -> None:
        inodes = [inode for _, inode in self.files()]
        versions = sorted({*pending, *(v for inode in inodes for v in inode.versions())})
        last_version = random.choice([0, *versions])
        self._settle_names([pending[n] for n in sorted(pending) if n <= last_version])
        for _, inode in self.files():
            inode.lose_power_in_order(last_version)

    def _settle_names(self, kept: list[Change]) -> None:
        for change in kept:
            change.make_durable()
        self._found.clear()
        for directory in self._directories(durable=True):
            directory.entries = dict(directory.durable)
            directory.pending = []
        self.locks.clear()

    def has_lost_writes(self) -> bool:
        """Whether a failed fsync has left pages that only memory has."""
        return any(inode.has_ghosts for _, inode in self.files())

    def forget_lost_writes(self) -> None:
        """Memory lets go of such pages; reads find what the disk has."""
        for _, inode in self.files():
            inode.drop_ghosts()

    def _directories(self, *, durable: bool = False) -> list[Directory]:
        found = [self.root]
        for directory in found:
            nodes = [*directory.durable.values()]
            if not durable:
                nodes += directory.entries.values()
            found += [n for n in nodes if isinstance(n, Directory) and n not in found]
        return found

    def _change(self, edits: list[tuple[Directory, str, Node | None]]) -> None:
        self._found.clear()
        change = Change(next(self._versions), edits)
        for directory, name, node in edits:
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node
            if change not in directory.pending:
                directory.pending.append(change)

    def _parent(self, path: str) -> tuple[Directory, str]:
        *above, name = _names(path)
        return self.directory("/" + "/".join(above)), name


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)

"""The embedded store's journal on disk: replay at start, append, make durable, compact.

One file, replaced as a whole when the transactions outgrow the snapshot in front of them: the
tree goes into a second file, which takes the first one's name once it is on the disk. A crash at
any moment leaves one complete file under the name, holding all that was ever acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store.frames import (
    decode_snapshot,
    decode_transaction,
    encode_snapshot,
    encode_transaction,
    frame_at,
)
from ottla.coordinator.store.store import GroupFailed
from ottla.coordinator.store.tree import Tree
from ottla.protocol.errors import CorruptLogError

if TYPE_CHECKING:
    from ottla.coordinator.store.tree import StoreTransaction
    from ottla.protocol.ports import Disk, File

_NAME = "store.journal"
_NEXT_NAME = "store.journal.next"
# Below this the rewriting costs more than reading the journal at the next start.
COMPACTION_BYTES_MIN = 1024 * 1024


async def make_directory(disk: Disk, directory: str) -> None:
    """Make the directory, and every name on the way to it durable (S-07).

    Otherwise a power cut takes the directory and all that was ever acknowledged in it."""
    holders = [_parent(directory)]
    while not disk.is_directory(holders[-1]) and _parent(holders[-1]) != holders[-1]:
        holders.append(_parent(holders[-1]))
    disk.make_directory(directory)
    for holder in holders:
        try:
            await disk.fsync_directory(holder)
        except PermissionError:
            # Another user's directory that existed before: its entries are not ours to flush.
            continue


class Journal:
    """Owned by one store, which is the only one to touch the directory's two files.

    ``append`` and ``flush`` may overlap; two flushes may not. After an exception of ``flush``
    nothing may be appended any more (hazard S-09): the owner must give up."""

    def __init__(self, disk: Disk, directory: str, file: File, snapshot_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._file = file
        self._snapshot_bytes = snapshot_bytes
        self._synced_bytes = file.size_bytes
        self._is_replacing = False

    @classmethod
    async def open(cls, disk: Disk, directory: str) -> tuple[Journal, Tree]:
        """Replay what is there, or begin. Raises CorruptLogError, OSError."""
        # A rewriting that did not get its name was never needed.
        await disk.unlink(f"{directory}/{_NEXT_NAME}")
        if not disk.exists(f"{directory}/{_NAME}"):
            return await cls._begin(disk, directory)
        file = disk.open(f"{directory}/{_NAME}")
        data = file.pread(file.size_bytes, 0)
        tree, snapshot_bytes = decode_snapshot(data)
        end = _replay(tree, data, snapshot_bytes)
        if end < len(data):
            file.truncate(end)
        # The cut, and entries that were written but never acknowledged, become durable now: what
        # is read from here on must not be lost by the next crash.
        await file.fsync()
        return cls(disk, directory, file, snapshot_bytes), tree

    @classmethod
    async def _begin(cls, disk: Disk, directory: str) -> tuple[Journal, Tree]:
        tree = Tree()
        journal = cls(disk, directory, disk.open(f"{directory}/{_NEXT_NAME}", create=True), 0)
        journal._write_snapshot(tree)
        await journal.flush()
        return journal, tree

    @property
    def needs_compaction(self) -> bool:
        """Whether the transactions have outgrown the snapshot."""
        grown = self._file.size_bytes - self._snapshot_bytes
        return not self._is_replacing and grown > max(self._snapshot_bytes, COMPACTION_BYTES_MIN)

    def append(self, transaction: StoreTransaction) -> None:
        """Write the entry, not yet durable. Raises OSError, after which the file is as before;

        if not even that could be restored, raises CorruptLogError and the journal is finished."""
        size_bytes = self._file.size_bytes
        try:
            self._file.append([encode_transaction(transaction, self._synced_bytes)])
        except OSError as error:
            try:
                self._file.truncate(size_bytes)
            except OSError:
                raise CorruptLogError(f"the store's journal cannot be repaired: {error}") from error
            raise

    def begin_compaction(self, tree: Tree) -> None:
        """Continue in a second file, which starts with the tree; the next flush gives it the name.

        Not while a flush is under way. Raises OSError; the journal then goes on as it was."""
        path = f"{self._directory}/{_NEXT_NAME}"
        before = self._file
        self._file = self._disk.open(path, create=True)
        try:
            self._file.truncate(0)
            self._write_snapshot(tree)
        except OSError:
            self._file = before
            raise

    async def flush(self) -> None:
        """Return when all that was appended before the call is on the disk. Raises OSError."""
        size_bytes, replacing = self._file.size_bytes, self._is_replacing
        await self._file.fsync()
        if replacing:
            directory = self._directory
            await self._disk.rename(f"{directory}/{_NEXT_NAME}", f"{directory}/{_NAME}")
            await self._disk.fsync_directory(directory)
            self._is_replacing = False
        self._synced_bytes = size_bytes

    def _write_snapshot(self, tree: Tree) -> None:
        self._file.append(list(encode_snapshot(tree)))
        self._snapshot_bytes = self._file.size_bytes
        # Nothing of this file is promised yet.
        self._synced_bytes = 0
        self._is_replacing = True


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _replay(tree: Tree, data: bytes, position: int) -> int:
    """Apply the transactions after the snapshot; return where the good part of the file ends."""
    while position < len(data):
        found = frame_at(data, position)
        entry = decode_transaction(found[0]) if found is not None else None
        if found is None or entry is None or entry.transaction.zxid != tree.last_zxid + 1:
            _refuse_damage(data, position, tree.last_zxid)
            return position
        try:
            tree.apply(entry.transaction)
        except GroupFailed as error:
            raise CorruptLogError(f"the store's journal contradicts itself: {error}") from error
        position = found[1]
    return position


def _refuse_damage(data: bytes, position: int, last_zxid: int) -> None:
    """Raise CorruptLogError if a later entry proves that the bytes here were once on the disk.

    Without such proof they are the torn end of writes that were never acknowledged."""
    later = position + 1
    while later < len(data):
        found = frame_at(data, later)
        entry = decode_transaction(found[0]) if found is not None else None
        if found is None or entry is None:
            later += 1
            continue
        if entry.synced_bytes > position and entry.transaction.zxid > last_zxid + 1:
            raise CorruptLogError(f"the store's journal is damaged at byte {position}")
        later = found[1]

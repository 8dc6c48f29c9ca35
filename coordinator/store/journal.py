"""The embedded store's journal on disk: replay at start, append, make durable, compact.

The journal is one file, which is replaced when its transactions outgrow the snapshot before them:
the tree is written to a second file, which is renamed once it is durable. After a crash at any
moment one complete file has the name, with all confirmed transactions.
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
# Below this size rewriting costs more than reading the journal at the next start.
COMPACTION_BYTES_MIN = 1024 * 1024


async def make_directory(disk: Disk, directory: str) -> None:
    """Create the directory, and make every name in its path durable (S-07).

    Otherwise a power cut could remove the directory with everything confirmed in it."""
    holders = [_parent(directory)]
    while not disk.is_directory(holders[-1]) and _parent(holders[-1]) != holders[-1]:
        holders.append(_parent(holders[-1]))
    disk.make_directory(directory)
    for holder in holders:
        try:
            await disk.fsync_directory(holder)
        except PermissionError:
            # An existing directory of another user: its entries are not ours to flush.
            continue


class Journal:
    """Owned by one store, which alone uses the directory's two files.

    ``append`` and ``flush`` may overlap; two flushes may not. After an exception of ``flush`` no
    append is allowed (hazard S-09): the owner must give up."""

    def __init__(self, disk: Disk, directory: str, file: File, snapshot_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._file = file
        self._snapshot_bytes = snapshot_bytes
        self._synced_bytes = file.size_bytes
        self._is_replacing = False

    @classmethod
    async def open(cls, disk: Disk, directory: str) -> tuple[Journal, Tree]:
        """Replay the existing journal, or start a new one. Raises CorruptLogError, OSError."""
        # A rewritten file without its final name was never needed.
        await disk.unlink(f"{directory}/{_NEXT_NAME}")
        if not disk.exists(f"{directory}/{_NAME}"):
            return await cls._begin(disk, directory)
        file = disk.open(f"{directory}/{_NAME}")
        data = file.pread(file.size_bytes, 0)
        tree, snapshot_bytes = decode_snapshot(data)
        end = _replay(tree, data, snapshot_bytes)
        if end < len(data):
            file.truncate(end)
        # The truncation, and entries that were written but never confirmed, become durable now: the
        # next crash must not lose state that is read from here on.
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
        """Write the entry without making it durable.

        Raises OSError, and then the file is unchanged. Raises CorruptLogError if it cannot be
        restored: the journal has failed."""
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

        Not while a flush is in progress. Raises OSError; then the journal continues in its present
        file."""
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
        """Return when all entries appended before the call are on the disk. Raises OSError."""
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
        # No entry of this file is confirmed yet.
        self._synced_bytes = 0
        self._is_replacing = True


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _replay(tree: Tree, data: bytes, position: int) -> int:
    """Apply the transactions after the snapshot; return where the valid part of the file ends."""
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
    """Raise CorruptLogError if a later entry proves that these bytes were durable.

    Without such proof they are the torn end of writes that were never confirmed."""
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

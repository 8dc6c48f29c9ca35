"""Aborted transactions of one segment: Kafka's 34-byte entries, ordered by their marker's offset.

Fetch responses list those that touch their records; read_committed consumers skip the records.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING

from ottla.broker.log.storage.checkpoints import read_file
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Disk, File

ENTRY_BYTES = 34
_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
_last_offset_of = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """``last_offset`` is the abort marker's; ``last_stable_offset`` is the one after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entry: AbortedTransaction) -> bytes:
    """One entry of a ``.txnindex`` file."""
    return _ENTRY.pack(_VERSION, *entry)


def decode_aborted(content: bytes) -> list[AbortedTransaction] | None:
    """All entries of a file; None unless it is a complete ascending list of version 0."""
    if len(content) % ENTRY_BYTES:
        return None
    entries: list[AbortedTransaction] = []
    for version, *fields in _ENTRY.iter_unpack(content):
        entry = AbortedTransaction(*fields)
        if version != _VERSION or entry.first_offset > entry.last_offset:
            return None
        if entries and entry.last_offset <= entries[-1].last_offset:
            return None
        entries.append(entry)
    return entries


class TxnIndex:
    """The ``.txnindex`` of one segment, loaded once; most segments have none."""

    __slots__ = ("_disk", "_entries", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._entries: list[AbortedTransaction] | None = None

    def move_to(self, path: str) -> None:
        """Set the new path of the file."""
        self._path = path

    def load(self) -> list[AbortedTransaction] | None:
        """The entries; None if the file is corrupt. Raises OSError."""
        if self._entries is None:
            self._entries = decode_aborted(read_file(self._disk, self._path) or b"")
        return self._entries

    @property
    def entries(self) -> list[AbortedTransaction]:
        """The entries. Raises CorruptLogError: without them aborted records would be shown."""
        entries = self.load()
        if entries is None:
            raise CorruptLogError(f"{self._path} is no list of aborted transactions")
        return entries

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry in memory and to the file; durable after the next flush."""
        entries = self.entries
        assert not entries or entries[-1].last_offset < entry.last_offset
        self._disk.open(self._path, create=True).append([encode_aborted(entry)])
        entries.append(entry)

    def truncate(self, offset: int) -> None:
        """Forget transactions whose marker is at or after the offset, and any corrupt rest."""
        if not self._disk.exists(self._path):
            self._entries = []
            return
        file = self._disk.open(self._path)
        whole_bytes = file.size_bytes - file.size_bytes % ENTRY_BYTES
        kept = decode_aborted(file.pread(whole_bytes, 0)) or []
        kept = [entry for entry in kept if entry.last_offset < offset]
        file.truncate(len(kept) * ENTRY_BYTES)
        self._entries = kept

    def file_to_sync(self) -> File | None:
        """The file, if there is one."""
        return self._disk.open(self._path) if self.load() else None


def touching(
    entries: Sequence[AbortedTransaction], start_offset: int, upper_bound_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """The entries with records in [start, upper), and whether the search is complete.

    ``entries`` are in the order of their markers."""
    found: list[AbortedTransaction] = []
    first = bisect_left(entries, start_offset, key=_last_offset_of)
    for number in range(first, len(entries)):
        entry = entries[number]
        if entry.first_offset < upper_bound_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound_offset:
            return found, True
    return found, False

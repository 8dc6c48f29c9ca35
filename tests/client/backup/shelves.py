"""Backups in tests: makes, reads and restores them without a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla import Admin, Producer, TopicPartition
from ottla.client.backup.creating import BackupCreation
from ottla.client.backup.planning import BackupRequest
from ottla.client.backup.records import columns_of
from ottla.client.backup.restoring import RECORD_BYTES_MAX, Restoration, Restored, RestoreRequest
from ottla.client.backup.shelf import BackupShelf
from ottla.client.backup.store import BackupStore
from ottla.client.backup.transactions import Sieve
from ottla.client.backup.verifying import Comparison, Verified
from ottla.wire.clock import RealClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ottla.client.backup.manifest import BackupManifest
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.record import Record

SMALL_FILE_BYTES = 20_000
# So long a client asks for a topic that is gone.
CALL_TIMEOUT_MS = 3_000


def silent(sentence: str) -> None:
    """Takes what a person would be told."""
    assert sentence


async def create(
    servers: str,
    store: BackupStore,
    file_bytes: int = SMALL_FILE_BYTES,
    request: Mapping[str, object] | None = None,
) -> BackupManifest:
    """Make a backup."""
    wanted = BackupRequest(**(request or {}))  # type: ignore[arg-type]
    async with Admin(servers, call_timeout_ms=CALL_TIMEOUT_MS) as admin:
        work = BackupCreation(admin, BackupShelf(store), RealClock(), wanted, silent, file_bytes)
        return await work.run()


async def verify(servers: str, store: BackupStore, number: int | None = None) -> Verified:
    """Compare a backup with a cluster."""
    shelf = BackupShelf(store)
    async with Admin(servers) as admin:
        return await Comparison(admin, shelf, ["^"]).run(await shelf.manifest(number))


async def restore(servers: str, store: BackupStore) -> Restored:
    """Restore the newest backup."""
    shelf = BackupShelf(store)
    settings = {"request_bytes_max": RECORD_BYTES_MAX, "memory_bytes_max": 2 * RECORD_BYTES_MAX}
    async with (
        Admin(servers) as admin,
        Producer(servers, **settings) as producer,  # type: ignore[arg-type]
    ):
        work = Restoration(admin, producer, shelf, RestoreRequest(), silent)
        return await work.run(await shelf.manifest())


async def stored(store: BackupStore, manifest: BackupManifest, topic: str) -> list[list[Record]]:
    """The records of a topic's partitions in a backup."""
    shelf = BackupShelf(store)
    found = manifest.topic(topic)
    assert found is not None
    partitions = []
    for copy in found.partitions:
        sieve, records = Sieve(copy.left_out), []
        for file in copy.files:
            for batch in await shelf.batches(file):
                if sieve.keeps(batch):
                    where = TopicPartition(topic, copy.partition)
                    first = max(file.first_offset, copy.log_start)
                    records += columns_of(where, batch, first, file.next_offset).records()
        partitions.append(records)
    return partitions


class BrokenStore(BackupStore):
    """A store whose process dies, or whose disk is full, at one of its writes.

    ``before`` is called with the number of each write and the name; what it raises ends the write.
    ``after`` likewise, when the file is there."""

    def __init__(
        self,
        inner: BackupStore,
        before: Callable[[int, str], None] = lambda number, name: None,
        after: Callable[[int, str], None] = lambda number, name: None,
    ) -> None:
        self._inner = inner
        self._before = before
        self._after = after
        self.writes = 0

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        self.writes += 1
        number = self.writes
        self._before(number, name)
        self._inner.write(name, parts)
        self._after(number, name)

    def read(self, name: str) -> bytes:
        return self._inner.read(name)

    def names(self, prefix: str) -> list[str]:
        return self._inner.names(prefix)

    def delete(self, name: str) -> None:
        self._inner.delete(name)

    def place(self, name: str) -> str:
        return self._inner.place(name)

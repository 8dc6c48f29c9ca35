"""The backups in one store: reads and writes manifests and files with records, in threads."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.backup.errors import BackupError, DamagedBackup, NotStored
from ottla.client.backup.manifest import (
    MANIFESTS,
    BackupManifest,
    StoredFile,
    from_document,
    manifest_name,
    number_of,
    sealed,
    to_document,
    unsealed,
)
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import check_crc, iterate_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.client.backup.store import BackupStore
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch

Result = TypeVar("Result")


class BackupShelf:
    """All backups of one store."""

    def __init__(self, store: BackupStore) -> None:
        self._store = store

    async def numbers(self) -> list[int]:
        """The numbers of the backups, oldest first."""
        names = await in_thread(self._store.names, MANIFESTS)
        return sorted(number for name in names if (number := number_of(name)) is not None)

    async def manifest(self, number: int | None = None) -> BackupManifest:
        """The backup of that number, or the newest. Raises BackupError."""
        numbers = await self.numbers()
        if not numbers:
            raise BackupError(f"there is no backup in {self._store.place('')}")
        if number is None:
            number = numbers[-1]
        elif number not in numbers:
            known = ", ".join(map(str, numbers))
            raise BackupError(f"there is no backup {number}, only {known}")
        document = await self.document(manifest_name(number))
        assert document is not None
        return from_document(document)

    async def keep(self, manifest: BackupManifest) -> None:
        """Store a manifest: from now on the backup exists."""
        await self.put(manifest_name(manifest.number), to_document(manifest))

    async def names(self, prefix: str) -> list[str]:
        """The names of files that begin so."""
        return await in_thread(self._store.names, prefix)

    async def document(self, name: str) -> dict[str, Any] | None:
        """The content of a sealed file; None if there is none. Raises DamagedBackup."""
        try:
            data = await in_thread(self._store.read, name)
        except NotStored:
            return None
        return unsealed(self._store.place(name), data)

    async def put(self, name: str, document: dict[str, Any]) -> None:
        """Store a sealed file."""
        await in_thread(self._store.write, name, [sealed(document)])

    async def delete(self, name: str) -> None:
        """Delete a file."""
        await in_thread(self._store.delete, name)

    async def store_batches(
        self, name: str, parts: Sequence[Buffer], first_offset: int, next_offset: int
    ) -> StoredFile:
        """Store a file with record batches."""

        def write() -> StoredFile:
            digest = hashlib.sha256()
            for part in parts:
                digest.update(part)
            self._store.write(name, parts)
            size_bytes = sum(len(memoryview(part).cast("B")) for part in parts)
            return StoredFile(name, size_bytes, digest.hexdigest(), first_offset, next_offset)

        return await in_thread(write)

    async def batches(self, file: StoredFile) -> list[RecordBatch]:
        """The batches of a file. Raises DamagedBackup and NotStored."""
        return await in_thread(self._batches, file)

    def _batches(self, file: StoredFile) -> list[RecordBatch]:
        place = self._store.place(file.name)
        data = self._store.read(file.name)
        if len(data) != file.size_bytes:
            raise DamagedBackup(f"{place} has {len(data)} bytes, not {file.size_bytes}")
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise DamagedBackup(f"{place} is damaged: its checksum does not fit")
        try:
            batches = list(iterate_batches(data))
        except KafkaError as error:
            raise DamagedBackup(f"{place} is damaged: {error}") from error
        for batch in batches:
            if not check_crc(batch):
                raise DamagedBackup(f"{place} is damaged at offset {batch.base_offset}")
        return batches


async def in_thread(function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function in a thread. A cancelled call ends with the function, so that no write goes
    on behind the back of who cancelled it."""
    call = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise

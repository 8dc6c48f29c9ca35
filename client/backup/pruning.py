"""Deletes old backups, and files with records that no other backup names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.backup.errors import BackupError, DamagedBackup
from ottla.client.backup.manifest import RECORDS, RESTORES, UNFINISHED, manifest_name
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.client.backup.manifest import StoredFile
    from ottla.client.backup.shelf import BackupShelf


class Pruned(NamedTuple):
    """What was deleted, or would be.

    ``size_bytes`` counts the files that the deleted backups name; files that killed runs have left
    are deleted too, and their sizes are not known."""

    deleted: tuple[int, ...]
    kept: tuple[int, ...]
    files: int
    size_bytes: int


def numbers_to_delete(numbers: Sequence[int], keep: int, restored: Iterable[int]) -> list[int]:
    """Return which backups go: all but the newest ``keep``, and not those that a restore needs to
    go on. Pure."""
    assert keep > 0, "the next backup continues the newest one"
    held = set(restored)
    return [number for number in sorted(numbers)[:-keep] if number not in held]


async def prune(shelf: BackupShelf, keep: int, *, dry_run: bool = False) -> Pruned:
    """Delete all backups but the newest ``keep``; a run that was interrupted is run again.

    Manifests go first: a backup whose files are not all there must not be in the list. Raises
    BackupError while a backup is unfinished, and DamagedBackup if a manifest that stays cannot be
    read: then it is not known which files it needs."""
    # Listed first: a backup that begins meanwhile has no file among them, and one that ends has a
    # manifest among those that stay.
    listed = await shelf.names(RECORDS)
    unfinished = await shelf.document(UNFINISHED)
    numbers = await shelf.numbers()
    if not numbers and unfinished is None:
        # Raises: the place is mistyped, and the old backups are elsewhere.
        await shelf.manifest()
    if unfinished is not None and unfinished.get("number") not in numbers:
        raise BackupError(
            "a backup is being made there, or was interrupted: finish it with 'ottla backup create'"
        )
    restored = [number for name in await shelf.names(RESTORES) if (number := _restored(name)) > 0]
    gone = numbers_to_delete(numbers, keep, restored)
    kept = [number for number in numbers if number not in gone]
    needed = {file.name for number in kept for file in (await shelf.manifest(number)).files}
    named = [file for number in gone for file in await _files_of(shelf, number)]
    sizes = {file.name: file.size_bytes for file in named if file.name not in needed}
    files = [name for name in listed if name not in needed]
    if not dry_run:
        for number in gone:
            await shelf.delete(manifest_name(number))
        for name in files:
            await shelf.delete(name)
    return Pruned(tuple(gone), tuple(kept), len(files), sum(sizes.values()))


async def _files_of(shelf: BackupShelf, number: int) -> Sequence[StoredFile]:
    """The files of a backup that goes; a damaged manifest names none, and goes as well."""
    try:
        return (await shelf.manifest(number)).files
    except DamagedBackup:
        return ()


def _restored(name: str) -> int:
    """The number of the backup that this file is a restore of; 0 if it is none."""
    digits = name.removesuffix(".json").rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0

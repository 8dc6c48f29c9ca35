"""Old backups are deleted, and those that stay lose nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla import Admin, TopicPartition
from ottla.client.backup.errors import BackupError, DamagedBackup
from ottla.client.backup.manifest import RESTORES, UNFINISHED, manifest_name, sealed
from ottla.client.backup.pruning import Pruned, numbers_to_delete, prune
from ottla.client.backup.shelf import BackupShelf
from tests.client.backup.shelves import create, restore, stored, verify
from tests.client.backup.test_backups import fill

if TYPE_CHECKING:
    from pathlib import Path

    from ottla import Cluster
    from ottla.client.backup.store import DirectoryStore


def test_the_newest_stay_and_what_a_restore_needs() -> None:
    """A restore that was interrupted goes on with the backup it began with."""
    assert numbers_to_delete([1, 2, 3, 4], 2, []) == [1, 2]
    assert numbers_to_delete([1, 2, 3, 4], 2, [1, 4]) == [2]
    assert numbers_to_delete([4, 9], 5, []) == []


async def _chain(source: Cluster, store: DirectoryStore) -> None:
    """Three backups of a topic, of which retention deletes the beginning before the last."""
    source.create_topic("orders", 2)
    for number in range(3):
        await fill(source.bootstrap_servers, "orders", range(100 * number, 100 * number + 100))
        await create(source.bootstrap_servers, store)


def _files(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*.batches")}


async def test_what_stays_of_a_chain_is_restored_and_continued(
    source: Cluster, target: Cluster, store: DirectoryStore, tmp_path: Path
) -> None:
    """Later backups name files of earlier ones: those must not go."""
    await _chain(source, store)
    shelf = BackupShelf(store)
    before = _files(tmp_path)
    done = await prune(shelf, 1)

    assert (done.deleted, done.kept, done.files) == ((1, 2), (3,), 0)
    assert _files(tmp_path) == before
    assert await shelf.numbers() == [3]
    manifest = await shelf.manifest()
    assert sum(map(len, await stored(store, manifest, "orders"))) == 300
    assert (await verify(source.bootstrap_servers, store)).faults == []
    assert (await restore(target.bootstrap_servers, store)).records == 300
    await fill(source.bootstrap_servers, "orders", range(300, 350))
    assert (await create(source.bootstrap_servers, store)).number == 4
    assert (await verify(source.bootstrap_servers, store)).records == 350


async def test_files_that_only_old_backups_name_go(
    source: Cluster, store: DirectoryStore, tmp_path: Path
) -> None:
    """What the source has deleted is in the old backups only; a killed run's file is in none."""
    await _chain(source, store)
    shelf = BackupShelf(store)
    stray = "records/orders/id/0/00000000000000099999-00000000000000100000.batches"
    store.write(stray, [b"of a killed run"])
    async with Admin(source.bootstrap_servers) as admin:
        await admin.delete_records({TopicPartition("orders", number): 100 for number in (0, 1)})
    last = await create(source.bootstrap_servers, store)
    before = _files(tmp_path)
    asked = await prune(shelf, 1, dry_run=True)
    assert _files(tmp_path) == before
    done = await prune(shelf, 1)

    assert asked == done
    assert done.deleted == (1, 2, 3)
    assert done.size_bytes > 0
    assert _files(tmp_path) == {file.name.rpartition("/")[2] for file in last.files}
    assert (await verify(source.bootstrap_servers, store)).faults == []
    assert await prune(shelf, 1) == Pruned((), (4,), 0, 0)


async def test_nothing_is_deleted_while_it_is_not_known_what_is_needed(
    source: Cluster, store: DirectoryStore, tmp_path: Path
) -> None:
    """An unfinished backup has files that no manifest names yet; a damaged one cannot be read."""
    await _chain(source, store)
    shelf = BackupShelf(store)
    before = _files(tmp_path)
    store.write(UNFINISHED, [sealed({"format": 1, "number": 4})])
    with pytest.raises(BackupError, match="finish it with 'ottla backup create'"):
        await prune(shelf, 1)
    store.delete(UNFINISHED)
    whole = store.read(manifest_name(3))
    store.write(manifest_name(3), [whole[:-20]])
    with pytest.raises(DamagedBackup):
        await prune(shelf, 1)

    assert await shelf.numbers() == [1, 2, 3]
    assert _files(tmp_path) == before
    store.write(manifest_name(3), [whole])
    store.write(manifest_name(1), [b"damaged"])
    assert (await prune(shelf, 1)).deleted == (1, 2)


class _Overtaken(BackupShelf):
    """Between the questions of a prune, another process makes a whole backup."""

    def __init__(self, store: DirectoryStore, bootstrap: str) -> None:
        super().__init__(store)
        self._place, self._bootstrap, self._is_made = store, bootstrap, False

    async def names(self, prefix: str) -> list[str]:
        if not self._is_made and prefix == RESTORES:
            self._is_made = True
            await create(self._bootstrap, self._place)
        return await super().names(prefix)


async def test_a_backup_that_is_made_meanwhile_keeps_its_files(
    source: Cluster, store: DirectoryStore
) -> None:
    """Timers may start both commands at the same time."""
    await _chain(source, store)
    await fill(source.bootstrap_servers, "orders", range(300, 400))
    await prune(_Overtaken(store, source.bootstrap_servers), 1)

    assert (await BackupShelf(store).numbers())[-1] == 4
    assert (await verify(source.bootstrap_servers, store)).faults == []


async def test_a_place_without_a_backup_is_refused(store: DirectoryStore) -> None:
    """A mistyped place would otherwise never be noticed, and the disk fills up elsewhere."""
    with pytest.raises(BackupError, match="there is no backup in"):
        await prune(BackupShelf(store), 7)

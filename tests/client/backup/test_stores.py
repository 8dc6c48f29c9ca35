"""Where backups are kept: a directory, and an S3-compatible server on loopback."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from ottla.client.backup.errors import BackupError, NotStored
from ottla.client.backup.store import BackupStore, DirectoryStore, open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["directory", "s3"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> BackupStore:
    """Both kinds."""
    if request.param == "directory":
        return open_store(str(tmp_path / "new"))
    return open_store("s3://backups/kafka/a", request.getfixturevalue("endpoint"))


def test_a_file_is_read_as_it_was_written(any_store: BackupStore) -> None:
    """Both stores do the same."""
    any_store.write("records/t/0/1.batches", [b"one", memoryview(b"two")])
    any_store.write("records/t/0/1.batches", [b"three"])
    any_store.write("manifests/1.json", [])

    assert any_store.read("records/t/0/1.batches") == b"three"
    assert any_store.read("manifests/1.json") == b""
    assert any_store.names("records/") == ["records/t/0/1.batches"]
    any_store.delete("records/t/0/1.batches")
    any_store.delete("records/t/0/1.batches")
    with pytest.raises(NotStored, match=r"1\.batches is missing"):
        any_store.read("records/t/0/1.batches")


def test_a_directory_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """Records are as secret as the topics that they come from."""
    root = tmp_path / "kept"
    DirectoryStore(root).write("records/t/1.batches", [b"secret"])

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert modes == {"records": 0o700, "t": 0o700, "1.batches": 0o600}
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """Half a manifest would be no backup at all."""
    store = DirectoryStore(tmp_path)
    store.write("m.json", [b"old"])

    with pytest.raises(TypeError):
        store.write("m.json", [b"new", "no bytes"])  # type: ignore[list-item]

    assert store.read("m.json") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


def test_a_wrong_bucket_is_told_in_a_sentence(endpoint: str) -> None:
    """A traceback of a library says nothing to who mistyped a name."""
    store = open_store("s3://nowhere", endpoint)

    with pytest.raises(BackupError, match=r"s3://nowhere/m: .*bucket does not exist"):
        store.write("m", [b""])
    with pytest.raises(BackupError, match="names no bucket"):
        open_store("s3://")

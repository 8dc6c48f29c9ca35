"""The cluster that is backed up, and the one that is restored to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla import Cluster
from ottla.client.backup.store import DirectoryStore
from tests.client.support.sites import broker_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.client.support.sites import Apaches


@pytest.fixture
def source() -> Iterator[Cluster]:
    """A source for one test."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def target() -> Iterator[Cluster]:
    """A target for one test."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """An empty directory."""
    return DirectoryStore(tmp_path / "backup")


@pytest.fixture(scope="session")
def any_broker(kind: str, apaches: Apaches) -> Iterator[str]:
    """The address of a broker of that kind."""
    with broker_of(kind, apaches, "backups") as address:
        yield address

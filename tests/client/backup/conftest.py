"""The cluster that is backed up, and the one that is restored to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from moto.server import ThreadedMotoServer

from ottla import Cluster
from ottla.client.backup.store import DirectoryStore
from ottla.client.process.optional_imports import library
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


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server with a bucket ``backups``, and credentials for it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    # Nothing outside of the test decides.
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    library("boto3", "s3").client("s3", endpoint_url=address).create_bucket(Bucket="backups")
    yield address
    server.stop()

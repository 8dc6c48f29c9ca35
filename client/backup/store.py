"""Where a backup is kept: a directory, or a bucket of an S3-compatible store.

A file appears whole or not at all, also after a kill or a power cut, and is readable by its owner
only: records are as secret as the topics that they come from.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.client.backup.errors import BackupError, NotStored
from ottla.client.process.optional_imports import library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer

S3_SCHEME = "s3://"
PART_SUFFIX = ".part"


class BackupStore(ABC):
    """Files by name; ``/`` separates folders. The calls block, so they are made in a thread."""

    @abstractmethod
    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        """Store a file, or replace it. Raises OSError and BackupError."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The whole file. Raises NotStored, OSError and BackupError."""

    @abstractmethod
    def names(self, prefix: str) -> list[str]:
        """The names that begin with the prefix, sorted. Raises OSError and BackupError."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it is there. Raises OSError and BackupError."""

    @abstractmethod
    def place(self, name: str) -> str:
        """What a person calls the file."""


class DirectoryStore(BackupStore):
    """A directory; it is created with the first file."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        path = self._root / name
        self._make(path.parent)
        part = path.with_name(path.name + PART_SUFFIX)
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                for one in parts:
                    file.write(one)
                file.flush()
                os.fsync(descriptor)
            part.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        # The new name survives a power cut only if the directories on the way are on the disk.
        for directory in (path.parent, *path.parent.parents):
            _sync_directory(directory)
            if directory == self._root:
                break

    def _make(self, directory: Path) -> None:
        missing = []
        while not directory.exists():
            missing.append(directory)
            directory = directory.parent
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)

    def read(self, name: str) -> bytes:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError as error:
            raise NotStored(f"{self.place(name)} is missing") from error

    def names(self, prefix: str) -> list[str]:
        folder = self._root / prefix.rpartition("/")[0]
        found = [
            path.relative_to(self._root).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != PART_SUFFIX
        ]
        return sorted(name for name in found if name.startswith(prefix))

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def place(self, name: str) -> str:
        return str(self._root / name)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3Store(BackupStore):
    """A bucket, and a prefix in it. Credentials come from boto3's usual places: environment,
    ``~/.aws``, the machine's role. They are never written anywhere."""

    def __init__(self, bucket: str, prefix: str, endpoint: str | None) -> None:
        boto3 = library("boto3", "s3")
        self._errors: tuple[type[Exception], ...] = (
            library("botocore.exceptions", "s3").BotoCoreError,
            library("botocore.exceptions", "s3").ClientError,
        )
        try:
            self._client: Any = boto3.client("s3", endpoint_url=endpoint)
        except (*self._errors, ValueError) as error:
            raise BackupError(f"the store of {bucket!r} cannot be used: {error}") from error
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        with self._told(name):
            self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + name, Body=b"".join(parts)
            )

    def read(self, name: str) -> bytes:
        with self._told(name):
            found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            data: bytes = found["Body"].read()
            return data
        raise AssertionError("unreachable")

    def names(self, prefix: str) -> list[str]:
        found: list[str] = []
        with self._told(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                found += [one["Key"].removeprefix(self._prefix) for one in page.get("Contents", [])]
        return sorted(found)

    def delete(self, name: str) -> None:
        with self._told(name):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    def place(self, name: str) -> str:
        return f"{S3_SCHEME}{self._bucket}/{self._prefix}{name}"

    @contextlib.contextmanager
    def _told(self, name: str) -> Any:
        try:
            yield
        except self._errors as error:
            answer: dict[str, Any] = getattr(error, "response", {})
            if answer.get("Error", {}).get("Code") == "NoSuchKey":
                raise NotStored(f"{self.place(name)} is missing") from error
            raise BackupError(f"{self.place(name)}: {error}") from error


def open_store(where: str, endpoint: str | None = None) -> BackupStore:
    """The store at a path or an ``s3://bucket/prefix``. Raises BackupError and ImportError."""
    if not where.startswith(S3_SCHEME):
        return DirectoryStore(Path(where))
    bucket, _, prefix = where.removeprefix(S3_SCHEME).partition("/")
    if not bucket:
        raise BackupError(f"{where!r} names no bucket: s3://BUCKET/PREFIX does")
    return S3Store(bucket, prefix.strip("/"), endpoint)

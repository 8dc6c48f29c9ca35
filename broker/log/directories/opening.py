"""Opens a broker's data directories: lock, identity, then all logs, disks in parallel."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.log.directories.directories import DirectoriesConfig, LogDirectories
from ottla.broker.log.directories.directory import LogDirectory, OpenAs
from ottla.broker.log.directories.identity import (
    DirectoryIdentity,
    check_identity,
    draw_directory_id,
    missing_directories,
    read_identity,
    write_identity,
)
from ottla.broker.log.storage.directory_services import LogDirectoryServices, LogSeams, OpenSegments
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.log.storage.names import LOCK, join, parent_of
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.protocol.ports import FileLock

logger = logging.getLogger("ottla.log")


async def open_directories(
    seams: LogSeams, config: DirectoriesConfig, open_as: OpenAs
) -> LogDirectories:
    """Lock, identify and load all of ``log.dirs``.

    A directory that cannot be read is offline; the others are used. Raises KafkaError, with advice
    for the operator, when the broker must not start: a directory is in use, belongs to another
    broker or cluster, or none works."""
    open_segments = OpenSegments(config.open_segments_max)
    directories: list[LogDirectory] = []
    locks: list[FileLock] = []
    identities: dict[str, DirectoryIdentity] = {}
    try:
        for path in config.paths:
            health = DirectoryHealth(seams.disk, path, config.free_bytes_floor)
            health.make_room = open_segments.make_room
            try:
                await _make_directory(seams, path)
                locks.append(_lock(seams, path))
                identities[path] = _identify(seams, path, config)
            except OSError as error:
                health.latch(f"cannot use {path}", error)
            directories.append(
                LogDirectory(LogDirectoryServices(seams, health, open_segments), open_as)
            )
        if not identities:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"none of the data directories can be used: {', '.join(config.paths)}",
            )
        opened = LogDirectories(config, directories, locks)
        opened.missing_ids = missing_directories(identities.values())
        opened.home = next(iter(identities.values())).directory_id
        await _write_identities(opened, identities)
        await asyncio.gather(
            *(each.load(config.broker_id, config.workers_per_directory) for each in opened.online)
        )
        await opened.doubles.sort_out(opened.directories)
        opened.futures.find_unfinished(opened.directories)
    except BaseException:
        for lock in locks:
            lock.release()
        raise
    return opened


async def _make_directory(seams: LogSeams, path: str) -> None:
    """Create a data directory and its parents; their names survive a power cut."""
    made: list[str] = []
    above = path
    while not seams.disk.is_directory(above):
        made.append(above)
        above = parent_of(above)
    seams.disk.make_directory(path)
    for each in reversed(made):
        await seams.disk.fsync_directory(parent_of(each))


def _lock(seams: LogSeams, path: str) -> FileLock:
    try:
        return seams.disk.lock(join(path, LOCK))
    except BlockingIOError as error:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{path} is in use by another broker process. Stop that broker, or give this one its "
            f"own data directory.",
        ) from error


def _identify(seams: LogSeams, path: str, config: DirectoriesConfig) -> DirectoryIdentity:
    found = read_identity(seams.disk, path)
    if found is None:
        directory_id = draw_directory_id(seams.random)
        return DirectoryIdentity(config.broker_id, config.cluster_id, directory_id, frozenset())
    check_identity(path, found, config.broker_id, config.cluster_id)
    directory_id = found.directory_id or draw_directory_id(seams.random)
    return found._replace(cluster_id=config.cluster_id, directory_id=directory_id)


async def _write_identities(
    opened: LogDirectories, identities: dict[str, DirectoryIdentity]
) -> None:
    """Store the ids of all directories, including missing ones, in each directory."""
    siblings = opened.missing_ids | {each.directory_id for each in identities.values()}
    for directory in opened.online:
        identity = identities[directory.path]
        if identity.siblings == siblings:
            continue
        try:
            await write_identity(
                directory.home.disk, directory.path, identity._replace(siblings=siblings)
            )
        except OSError as error:
            directory.home.health.judge(f"cannot write to {directory.path}", error)


async def forget_missing(opened: LogDirectories) -> None:
    """Forget missing directories: the operator has confirmed that they will not come back.

    Raises OSError, KafkaError."""
    opened.missing_ids = frozenset()
    found = {each.path: read_identity(each.home.disk, each.path) for each in opened.online}
    identities = {path: identity for path, identity in found.items() if identity is not None}
    await _write_identities(opened, identities)

"""Copies of logs that are moved to another data directory of the same broker (KIP-113).

A copy is in ``<topic>-<partition>.<hex>-future`` in the new directory, is filled by
``broker/directories/replica_copy.py``, and replaces the log when it is complete. The log stays the
same object: its files are exchanged under its lock, as by compaction, while appends continue. The
order of the exchange leaves one valid log wherever a crash happens:

1. the copy is durable up to the log end of that moment, so that it keeps every acknowledged record,
   and the checkpoints of its directory know of it;
2. its directory takes the partition's name: there are two logs of that name now, and a start
   serves the longer one (duplicates.py), which is the old one or equal to it;
3. the log continues in the copy's files: now the copy is the longer one;
4. the old directory is renamed, and removed later.

The lock excludes truncations, deletions and flushes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from ottla.broker.log.deletion import remove_snapshots_after
from ottla.broker.log.flushing import flush_locked
from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.recovery.loading import Known, load_log
from ottla.broker.log.storage.checkpoints import (
    decode_partition_metadata,
    encode_partition_metadata,
    read_file,
    replace_file,
)
from ottla.broker.log.storage.names import (
    DELETE_MARK,
    FUTURE_MARK,
    KEPT_FORMAT,
    KEPT_MARK,
    PARTITION_METADATA,
    STRAY_MARK,
    TXN_INDEX,
    join,
    marked_name,
    partition_name,
)
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.broker.log.directories.directory import LogDirectory
    from ottla.protocol.ids import TopicPartition, Uuid

logger = logging.getLogger("ottla.log")


class Future(NamedTuple):
    """A log, the copy that will replace it, and the directories of both.

    ``lock`` is held while the copy is dropped or exchanged."""

    log: PartitionLog
    copy: PartitionLog
    source: LogDirectory
    target: LogDirectory
    lock: asyncio.Lock

    @property
    def lag(self) -> int:
        """How many offsets the copy lacks."""
        return self.log.log_end_offset - self.copy.log_end_offset


class Copying(Protocol):
    """Brings a copy up to its log."""

    async def come_near(self) -> bool:
        """Copy until the rest is small enough for ``copy_rest``; False if the log grows faster."""

    def copy_rest(self) -> None:
        """Copy the rest without awaiting."""


class FutureLogs:
    """At most one copy of each log; owned by the data directories."""

    def __init__(self) -> None:
        self._futures: dict[TopicPartition, Future] = {}
        self._unfinished: dict[TopicPartition, list[tuple[LogDirectory, str]]] = {}

    def find(self, partition: TopicPartition) -> Future | None:
        """The copy that is being made of a partition's log."""
        return self._futures.get(partition)

    def __iter__(self) -> Iterator[Future]:
        return iter(list(self._futures.values()))

    # -- moves that a stop has interrupted ---------------------------------------------------

    def find_unfinished(self, directories: Iterable[LogDirectory]) -> None:
        """After all directories are loaded, collect the copies that an earlier run began."""
        for directory in directories:
            for partition, path in directory.unfinished_copies:
                self._unfinished.setdefault(partition, []).append((directory, path))

    @property
    def unfinished(self) -> dict[TopicPartition, str]:
        """Target directory by partition of the moves that a stop interrupted."""
        return {
            partition: copies[0][0].path
            for partition, copies in self._unfinished.items()
            if copies[0][0].home.health.is_online
        }

    def unfinished_target(self, partition: TopicPartition, topic_id: Uuid) -> str | None:
        """Where a stop interrupted a move of this topic's replica. Raises KafkaError."""
        for directory, path in self._unfinished.get(partition, ()):
            if directory.home.health.is_online and _topic_id_of(directory, path) == topic_id:
                return directory.path
        return None

    async def forget_unfinished(self, partition: TopicPartition) -> None:
        """Remove the copies of an earlier run. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        for directory, path in self._unfinished.pop(partition, ()):
            if directory.home.health.is_online:
                await _remove(directory, path, partition)

    async def forget_deleted(self, partition: TopicPartition, topic_id: Uuid) -> int:
        """Remove an earlier run's copies of a deleted topic; returns how many there were.

        Copies on an offline directory stay. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        count = 0
        for copied in list(self._unfinished.get(partition, ())):
            directory, path = copied
            left = self._unfinished.get(partition, [])
            if copied not in left or not directory.home.health.is_online:
                continue
            if _topic_id_of(directory, path) != topic_id:
                continue
            # Before the rename: a resumed move removes what it finds here, and the second rename
            # of a directory would look like a failing disk.
            left.remove(copied)
            if not left:
                del self._unfinished[partition]
            await _remove(directory, path, partition)
            count += 1
        return count

    # -- copies ------------------------------------------------------------------------------

    async def begin(self, log: PartitionLog, source: LogDirectory, target: LogDirectory) -> Future:
        """Create an empty copy in the target, durably; an unfinished one is removed.

        Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        partition, home = log.partition, target.home
        home.health.ensure_online()
        assert partition not in self._futures
        path = join(target.path, marked_name(partition, home.random.token(16), FUTURE_MARK))
        _settings, observer = target.open_as(partition)
        copy = PartitionLog(home, path, partition, log.topic_id, log.settings, observer)
        future = Future(log, copy, source, target, asyncio.Lock())
        # Registered before the first await: no second move begins, and the log is not compacted.
        self._futures[partition] = future
        log.is_moving = True
        is_made = False
        try:
            # Concurrent deletions wait: half a directory cannot be removed.
            async with future.lock:
                async with log.lock:
                    # No compaction is exchanging files now, and none begins.
                    log.ensure_usable()
                await self._make(future)
                is_made = True
        except OSError as error:
            raise home.health.judge(f"cannot create {path}", error) from error
        finally:
            if not is_made:
                self._forget(future)
        await self.forget_unfinished(partition)
        return future

    async def _make(self, future: Future) -> None:
        """Create the copy's directory, empty and durable. Raises OSError."""
        copy, disk = future.copy, future.target.home.disk
        disk.make_directory(copy.directory)
        if copy.topic_id is not None:
            metadata = encode_partition_metadata(copy.topic_id)
            await replace_file(disk, join(copy.directory, PARTITION_METADATA), metadata)
        await load_log(copy, Known())
        await copy.sync_names()
        await future.target.sync_names()

    async def drop(self, partition: TopicPartition) -> None:
        """Cancel the move of a partition, if there is one, and remove the copy.

        Nothing is raised; on a directory that fails, the copy is found again at the next start."""
        try:
            future = self._futures.get(partition)
            if future is not None:
                async with future.lock:
                    if self._futures.get(partition) is future:
                        self._forget(future)
                        if future.target.home.health.is_online:
                            await _remove(future.target, future.copy.directory, partition)
            await self.forget_unfinished(partition)
        except KafkaError as error:
            logger.error("%s", error.message)

    def abandon(self, partition: TopicPartition) -> None:
        """Cancel the move because a directory has failed; the copy stays on the disk."""
        future = self._futures.get(partition)
        if future is not None:
            self._forget(future)

    def _forget(self, future: Future) -> None:
        self._futures.pop(future.log.partition, None)
        future.log.is_moving = False
        future.copy.refusal = "its move has ended"
        for segment in future.copy.segments:
            segment.detach()

    # -- the exchange ------------------------------------------------------------------------

    async def exchange(self, future: Future, copying: Copying) -> bool:
        """Replace the log's files by the copy's; False if that is impossible now.

        It is when the copy is far behind again or was dropped, or the log was deleted.

        Must not be cancelled. Raises KafkaError(KAFKA_STORAGE_ERROR), CorruptLogError; the log is
        unchanged then."""
        partition, log = future.log.partition, future.log
        async with future.lock, log.lock:
            if self._futures.get(partition) is not future or log.refusal is not None:
                return False
            log.home.health.ensure_online()
            if not await copying.come_near():
                return False
            copying.copy_rest()
            await self._make_durable(future)
            await self._name(future)
            try:
                await copying.come_near()
                copying.copy_rest()
            except (KafkaError, CorruptLogError):
                await self._take_name_back(future)
                raise
            former = self._adopt(future)
            try:
                await _bury(future.source, former, partition)
            except KafkaError as error:
                # The move is done. If the directory comes back, the newer log is served.
                logger.error("%s", error.message)
        return True

    async def _make_durable(self, future: Future) -> None:
        """Make the copy, the log's state and the target's checkpoints durable."""
        log, copy, checkpoints = future.log, future.copy, future.target.checkpoints
        if log.keeps_messages and not copy.keeps_messages:
            await replace_file(copy.home.disk, join(copy.directory, KEPT_FORMAT), KEPT_MARK)
            copy.keeps_messages = True
        partition, end_offset = log.partition, copy.log_end_offset
        # Only the log knows producers whose records were deleted, and leader epochs without
        # records.
        copy.observer.load_snapshot(log.observer.snapshot())
        copy.observer.load_leader_epochs(log.observer.leader_epochs())
        await remove_snapshots_after(copy, end_offset - 1)
        try:
            copy.take_snapshot(end_offset)
        except OSError as error:
            what = f"cannot save the producers of {partition}"
            raise copy.home.health.latch(what, error) from error
        await flush_locked(copy, end_offset)
        checkpoints.recovery_points[partition] = copy.recovery_point
        checkpoints.log_starts[partition] = copy.log_start_offset
        checkpoints.cleaner_offsets[partition] = log.cleaned_offset
        known = future.source.checkpoints.high_watermarks.get(partition)
        if known is not None:
            checkpoints.high_watermarks[partition] = known
        await checkpoints.save_recovery_points()
        await checkpoints.save_log_starts()
        await checkpoints.save_cleaner_offsets()
        await checkpoints.save_high_watermarks()

    async def _name(self, future: Future) -> None:
        copy, target = future.copy, future.target
        partition, disk = copy.partition, target.home.disk
        path = join(target.path, partition_name(partition))
        if disk.exists(path):
            # Left by an incomplete deletion.
            await target.rename(path, partition, STRAY_MARK)
        try:
            await disk.rename(copy.directory, path)
            _move_files(copy, path)
            await target.sync_names()
        except OSError as error:
            raise target.home.health.latch(f"cannot rename {copy.directory}", error) from error

    async def _take_name_back(self, future: Future) -> None:
        """Rename the copy back; at a start it could win over the log if that was truncated."""
        copy, target = future.copy, future.target
        target.home.health.ensure_online()
        _move_files(copy, await target.rename(copy.directory, copy.partition, FUTURE_MARK))

    def _adopt(self, future: Future) -> str:
        """Switch readers and appends to the copy's files; returns the directory of the old ones."""
        log, copy = future.log, future.copy
        assert copy.log_end_offset == log.log_end_offset
        assert copy.log_start_offset == log.log_start_offset
        former = log.directory
        for segment in log.segments:
            segment.detach()
        log.home, log.directory = copy.home, copy.directory
        log.set_segments(copy.segments)
        assert copy.recovery_point >= log.recovery_point
        log.recovery_point = copy.recovery_point
        log.unflushed_since_ms = copy.unflushed_since_ms
        log.names_changed, log.names_synced = copy.names_changed, copy.names_synced
        log.files_to_sync = copy.files_to_sync
        log.has_unsaved_start = False
        log.has_aborted = copy.has_aborted
        log.saved_leader_epochs = copy.saved_leader_epochs
        log.snapshot_offsets = copy.snapshot_offsets
        log.snapshot_position = copy.snapshot_position
        log.is_moving = False
        del self._futures[log.partition], future.source.logs[log.partition]
        future.target.logs[log.partition] = log
        return former


def _move_files(copy: PartitionLog, path: str) -> None:
    """Set the new path of the copy's directory; open files stay open."""
    copy.directory = path
    for segment in copy.segments:
        segment.directory = path
        segment.indexes.move_to(path)
        segment.transactions.move_to(segment.path_of(TXN_INDEX))


async def _bury(directory: LogDirectory, path: str, partition: TopicPartition) -> None:
    """Remove the partition from the directory and its checkpoints. Raises KafkaError."""
    home = directory.home
    home.health.ensure_online()
    try:
        await directory.checkpoints.forget(partition)
    except KafkaError:
        # A full disk must not prevent a deletion; the checkpoints are rewritten later.
        home.health.ensure_online()
    await _remove(directory, path, partition)


def _topic_id_of(directory: LogDirectory, path: str) -> Uuid | None:
    """The topic id of a copy; None if unknown. Raises KafkaError."""
    home = directory.home
    try:
        return decode_partition_metadata(read_file(home.disk, join(path, PARTITION_METADATA)))
    except OSError as error:
        raise home.health.latch(f"cannot read {path}", error) from error


async def _remove(directory: LogDirectory, path: str, partition: TopicPartition) -> None:
    """Rename a directory and schedule its removal. Raises KafkaError."""
    buried = await directory.rename(path, partition, DELETE_MARK)
    directory.home.late_deletions.schedule(buried, 0, is_directory=True)

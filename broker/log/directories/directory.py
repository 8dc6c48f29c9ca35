"""One data directory: its logs, its checkpoints and its clean mark.

A directory that fails takes only its own logs out of service. Unknown files and directories are
never deleted: they stay where they are and are reported (hazard S-32).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.log.directories.boot_mark import BootRecord
from ottla.broker.log.directories.directory_checkpoints import DirectoryCheckpoints
from ottla.broker.log.observer import LogObserver
from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.recovery.clean_mark import CleanLog, CleanMark, decode_mark, encode_mark
from ottla.broker.log.recovery.loading import Known, count_aborted, lay_out, load_log, start_log
from ottla.broker.log.storage.checkpoints import encode_partition_metadata, read_file, replace_file
from ottla.broker.log.storage.coalescing import CoalescedSave
from ottla.broker.log.storage.health import storage_error
from ottla.broker.log.storage.names import (
    CLEAN_SHUTDOWN,
    DELETE_MARK,
    OTHER_DIRECTORIES,
    PARTITION_METADATA,
    STRAY_MARK,
    join,
    mark_of,
    marked_name,
    parse_future_name,
    parse_partition_name,
    partition_name,
)
from ottla.broker.log.storage.settings import LogSettings
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from ottla.broker.log.storage.directory_services import LogDirectoryServices
    from ottla.protocol.ids import Uuid

logger = logging.getLogger("ottla.log")

OpenAs = Callable[[TopicPartition], tuple[LogSettings, LogObserver]]
"""What a partition's log is opened with: its topic's settings and a fresh observer."""


class LogDirectory:
    """One data directory; created when it is locked and its identity is verified."""

    def __init__(self, home: LogDirectoryServices, open_as: OpenAs) -> None:
        self.home = home
        self.path = home.health.path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Reason by partition whose log must neither be served nor truncated.
        self.damaged: dict[TopicPartition, str] = {}
        self._damaged_logs: dict[TopicPartition, PartitionLog] = {}
        # The damaged partitions that neither free space nor a restart can restore.
        self.spoiled: set[TopicPartition] = set()
        self.unknown_names: list[str] = []
        # Copies that a stop interrupted: partition and directory.
        self.unfinished_copies: list[tuple[TopicPartition, str]] = []
        self.reserved_count = 0
        self._scanned: list[int] = []
        self.clean_broker_epoch: int | None = None
        self.checkpoints = DirectoryCheckpoints(home, self.logs)
        self._boots = BootRecord(home)
        home.save_recovery_points = self.checkpoints.save_recovery_points
        home.save_log_starts = self.checkpoints.save_log_starts
        home.save_cleaner_offsets = self.checkpoints.save_cleaner_offsets
        self.open_as = open_as
        self._is_loaded = False
        self.sync_names = CoalescedSave(self._fsync_names)

    @property
    def partition_count(self) -> int:
        """The number of partitions here, including those being created."""
        return len(self.logs) + len(self.damaged) + self.reserved_count

    # -- start -------------------------------------------------------------------------------

    async def load(self, broker_id: int, workers: int) -> None:
        """Load all logs, ``workers`` at a time; a failing disk ends it early."""
        try:
            mark = await self._take_mark(broker_id)
            self.checkpoints.read()
            self._boots.read()
            waiting = iter(await self._find_partitions())
            await _all_of(self._load_each(waiting, mark) for _ in range(workers))
            if self.home.health.is_online:
                await self._boots.save(self.damaged)
            if self._scanned:
                logger.info(
                    "%s was not shut down cleanly: recovered %d logs by reading %d bytes",
                    self.path,
                    len(self._scanned),
                    sum(self._scanned),
                )
        except OSError as error:
            self.home.health.latch(f"cannot load {self.path}", error)
            return
        self._is_loaded = True
        if mark is not None and self.home.health.is_online:
            self.clean_broker_epoch = mark.broker_epoch

    async def _take_mark(self, broker_id: int) -> CleanMark | None:
        """Read the clean mark and remove it, durably, before anything relies on it (S-05)."""
        path = join(self.path, CLEAN_SHUTDOWN)
        content = read_file(self.home.disk, path)
        if content is None:
            return None
        await self.home.disk.unlink(path)
        await self.home.disk.fsync_directory(self.path)
        mark = decode_mark(content)
        return mark if mark is not None and mark.broker_id == broker_id else None

    async def _find_partitions(self) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for name in await self.home.disk.scan(self.path):
            path = join(self.path, name)
            if name in OTHER_DIRECTORIES or not self.home.disk.is_directory(path):
                continue
            partition = parse_partition_name(name)
            if mark_of(name) == DELETE_MARK:
                self.home.late_deletions.schedule(path, 0, is_directory=True)
            elif (copied := parse_future_name(name)) is not None:
                self.unfinished_copies.append((copied, path))
            elif partition is None or mark_of(name) is not None:
                self.unknown_names.append(name)
                logger.warning("%s is no partition directory and is left alone", path)
            else:
                found.append(partition)
        return found

    async def _load_each(self, waiting: Iterator[TopicPartition], mark: CleanMark | None) -> None:
        for partition in waiting:
            if not self.home.health.is_online:
                return
            clean = None if mark is None else mark.logs.get(partition)
            await self._load(partition, clean, cut_damage=False)

    async def _load(
        self, partition: TopicPartition, clean: CleanLog | None, *, cut_damage: bool
    ) -> None:
        known = Known(
            self.checkpoints.recovery_points.get(partition),
            self.checkpoints.log_starts.get(partition),
            clean,
            cut_damage,
            self._boots.may_have_lost_writes(partition),
            self.checkpoints.high_watermarks.get(partition),
        )
        log = self._new_log(partition, None)
        log.cleaned_offset = self.checkpoints.cleaner_offsets.get(partition, 0)
        try:
            scanned_bytes = await load_log(log, known)
        except CorruptLogError as error:
            logger.error("%s", error)
            self._mark_damaged(log, str(error))
            self.spoiled.add(partition)
        except KafkaError as error:
            self._mark_damaged(log, error.message)
            self._boots.keep_unread(partition)
        else:
            log.cleaned_offset = min(log.cleaned_offset, log.log_end_offset)
            self.logs[partition] = log
            if scanned_bytes:
                self._scanned.append(scanned_bytes)
                logger.debug(
                    "recovered %s, %d to %d, by reading %d bytes",
                    partition,
                    log.log_start_offset,
                    log.log_end_offset,
                    scanned_bytes,
                )

    def _mark_damaged(self, log: PartitionLog, reason: str) -> None:
        self.damaged[log.partition] = reason
        self._damaged_logs[log.partition] = log

    def _new_log(self, partition: TopicPartition, topic_id: Uuid | None) -> PartitionLog:
        settings, observer = self.open_as(partition)
        path = join(self.path, partition_name(partition))
        return PartitionLog(self.home, path, partition, topic_id, settings, observer)

    # -- partitions --------------------------------------------------------------------------

    async def create(self, partition: TopicPartition, topic_id: Uuid | None) -> PartitionLog:
        """Create an empty log, durably. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        self.home.health.ensure_online()
        assert partition not in self.logs
        if partition in self.damaged:
            raise storage_error(self.damaged[partition])
        log = self._new_log(partition, topic_id)
        disk = self.home.disk
        is_made = False
        self.reserved_count += 1
        try:
            # After a crash, a predecessor's checkpoints must not be taken for those of this log.
            await self.checkpoints.forget(partition)
            if disk.exists(log.directory):
                # Left by an incomplete deletion; its records do not belong to the new log.
                await self.rename(log.directory, partition, STRAY_MARK)
            is_made = True
            metadata = await self.home.offload.run(lay_out, log)
            if metadata is not None:
                await metadata.fsync()
            start_log(log)
            await log.sync_names()
            await self.sync_names()
        except OSError as error:
            refusal = self.home.health.judge(f"cannot create {log.directory}", error)
            if is_made and self.home.health.is_online and disk.exists(log.directory):
                await _unmake(log)
            raise refusal from error
        finally:
            self.reserved_count -= 1
        self.logs[partition] = log
        return log

    async def set_topic_id(self, log: PartitionLog, topic_id: Uuid) -> None:
        """Store the topic id of a log that was created without one. Raises KafkaError."""
        path = join(log.directory, PARTITION_METADATA)
        try:
            await replace_file(self.home.disk, path, encode_partition_metadata(topic_id))
        except OSError as error:
            raise self.home.health.judge(f"cannot write {path}", error) from error
        log.topic_id = topic_id

    async def delete(self, partition: TopicPartition) -> None:
        """Take a log out of service at once and remove it after ``file.delete.delay.ms``."""
        log = self.logs.get(partition) or self._damaged_logs[partition]
        _bury(log, await self.set_aside(partition, DELETE_MARK))

    async def set_aside(self, partition: TopicPartition, mark: str = STRAY_MARK) -> str:
        """Take a log out of service and keep it under another name; returns the new path."""
        if partition in self.damaged:
            source = join(self.path, partition_name(partition))
            await self.checkpoints.forget(partition)
            path = await self.rename(source, partition, mark)
            del self.damaged[partition], self._damaged_logs[partition]
            self.spoiled.discard(partition)
            await self._boots.update(self.damaged)
            return path
        return await self._retire(self.logs[partition], mark)

    # For partitions with copies in several directories (see ``duplicates.py``).

    def copies(self) -> list[tuple[PartitionLog, str | None]]:
        """All logs here, each with its damage or None."""
        sound = [(log, None) for log in self.logs.values()]
        return sound + [(log, self.damaged[one]) for one, log in self._damaged_logs.items()]

    def take_out(self, partition: TopicPartition) -> None:
        """Take the partition out of service in memory; nothing changes on the disk."""
        for known in (self.logs, self.damaged, self._damaged_logs):
            known.pop(partition, None)
        self.spoiled.discard(partition)

    def put_back(self, log: PartitionLog, damage: str | None) -> None:
        """Put the chosen copy into service, or list it as damaged."""
        if damage is None:
            self.logs[log.partition] = log
        else:
            self._mark_damaged(log, damage)

    async def set_copy_aside(self, log: PartitionLog, *, is_deleted: bool = False) -> str:
        """Rename a copy that was taken out; returns the new path. Raises KafkaError.

        ``is_deleted``: the copy of a deleted topic, which is removed later."""
        self.home.health.ensure_online()
        path = await self._retire(log, DELETE_MARK if is_deleted else STRAY_MARK)
        if is_deleted:
            _bury(log, path)
        return path

    async def repair(
        self, partition: TopicPartition, from_offset: int | None = None
    ) -> PartitionLog | None:
        """Load a log and truncate it at its damage, of which a copy is kept; the operator's choice.

        ``from_offset``: scan from there, even below the recovery point. Returns None if the damage
        does not allow it."""
        known = self.checkpoints.recovery_points.get(partition, 0)
        if from_offset is not None and from_offset < known:
            self.checkpoints.recovery_points[partition] = from_offset
        self.take_out(partition)
        await self._load(partition, None, cut_damage=True)
        await self._boots.update(self.damaged)
        return self.logs.get(partition)

    async def _retire(self, log: PartitionLog, mark: str) -> str:
        log.refusal = "it is deleted"
        self.logs.pop(log.partition, None)
        async with log.lock:
            try:
                await self.checkpoints.forget(log.partition)
            except KafkaError:
                # A full disk must not prevent a deletion (hazard S-11). The stale checkpoints are
                # rewritten before a log of that name is created again.
                self.home.health.ensure_online()
            for segment in log.segments:
                segment.detach()
            return await self.rename(log.directory, log.partition, mark)

    async def rename(self, source: str, partition: TopicPartition, mark: str) -> str:
        """Rename a partition directory to an unused name with that mark, durably; the new path.

        Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        name = marked_name(partition, self.home.random.token(16), mark)
        target = join(self.path, name)
        try:
            await self.home.disk.rename(source, target)
            await self.sync_names()
        except OSError as error:
            raise self.home.health.latch(f"cannot rename {source}", error) from error
        return target

    async def _fsync_names(self) -> None:
        await self.home.disk.fsync_directory(self.path)

    # -- stop --------------------------------------------------------------------------------

    async def close(self, broker_id: int, broker_epoch: int, workers: int) -> bool:
        """Close all logs and, on success, write the clean mark; returns whether it was written.

        Appends, deletions and housekeeping must have ended before (hazard S-15)."""
        if not self._is_loaded:
            # Logs that were not loaded cannot be marked clean.
            return False
        try:
            waiting = iter(list(self.logs.values()))
            states: dict[TopicPartition, CleanLog] = {}
            await _all_of(_close_each(waiting, states) for _ in range(workers))
            await self.checkpoints.save_recovery_points()
            await self.checkpoints.save_log_starts()
        except KafkaError:
            return False
        mark = CleanMark(broker_id, broker_epoch, states)
        path = join(self.path, CLEAN_SHUTDOWN)
        try:
            await replace_file(self.home.disk, path, encode_mark(mark))
        except OSError as error:
            self.home.health.judge(f"cannot write {path}", error)
            return False
        return True

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self.logs.values())


def topic_id_in(directory: LogDirectory, partition: TopicPartition) -> Uuid | None:
    """The topic id of the partition's log there, damaged or not; None if unknown."""
    log = directory.logs.get(partition) or directory._damaged_logs.get(partition)
    return None if log is None else log.topic_id


def _bury(log: PartitionLog, path: str) -> None:
    due_ms = log.home.clock.now_ms() + log.settings.file_delete_delay_ms
    log.home.late_deletions.schedule(path, due_ms, is_directory=True)


async def _unmake(log: PartitionLog) -> None:
    """Remove a log that a full disk left half-created: it would block a retry and take space."""
    for segment in log.segments:
        segment.detach()
    try:
        await log.home.disk.remove_tree(log.directory)
    except OSError as error:
        log.home.health.judge(f"cannot remove {log.directory}", error)


async def _close_each(
    waiting: Iterator[PartitionLog], states: dict[TopicPartition, CleanLog]
) -> None:
    for log in waiting:
        if await log.close():
            active = log.active
            states[log.partition] = CleanLog(
                log.log_end_offset, active.base_offset, active.size_bytes, count_aborted(log)
            )


async def _all_of(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run them concurrently, each to its end, then raise the first error."""
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    for result in results:
        if result is not None:
            raise result

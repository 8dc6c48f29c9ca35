"""All data directories of a broker (``log.dirs``): their state and the placement of partitions.

The broker runs as long as one of them works. While one is missing, a partition is created only if
the controller says that it is new: otherwise it may live on the missing disk, and an empty replica
must not pass for a full one (hazard S-13).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.log.directories.directory import topic_id_in
from ottla.broker.log.directories.duplicates import Doubles
from ottla.broker.log.directories.future_logs import FutureLogs
from ottla.broker.log.storage.directory_services import OPEN_SEGMENTS_MAX
from ottla.broker.log.storage.health import storage_error
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ottla.broker.log.directories.directory import LogDirectory
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.protocol.ids import TopicPartition, Uuid
    from ottla.protocol.ports import FileLock

logger = logging.getLogger("ottla.log")

# Files unused for this long are closed: long enough for a slow consumer's next fetch.
IDLE_MS = 60_000.0


class DirectoriesConfig(NamedTuple):
    """The owner of the directories and their settings."""

    paths: Sequence[str]
    broker_id: int
    cluster_id: str
    workers_per_directory: int = 2
    free_bytes_floor: int = 0
    open_segments_max: int = OPEN_SEGMENTS_MAX


class LogDirectories:
    """All data directories; created and loaded by ``open_directories``, closed once."""

    def __init__(
        self,
        config: DirectoriesConfig,
        directories: Sequence[LogDirectory],
        locks: Sequence[FileLock],
    ) -> None:
        self.config = config
        self.directories = list(directories)
        # Directories that others list as siblings and that are missing; see ``forget_missing``.
        self.missing_ids: frozenset[str] = frozenset()
        # The id of the first directory that works; its lock guarantees exclusive use of this data.
        self.home = ""
        self.doubles = Doubles()
        self.futures = FutureLogs()
        # Where an administrator wants partitions created that do not exist here yet.
        self.preferred: dict[TopicPartition, str] = {}
        self._locks = list(locks)
        self._release_due_ms = 0.0
        self._creating: set[TopicPartition] = set()

    # -- lookup -----------------------------------------------------------------------------

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition, whether or not its directory still works."""
        directory = self.directory_of(partition)
        return None if directory is None else directory.logs.get(partition)

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        """The directory that holds the partition, damaged or not."""
        for directory in self.directories:
            if partition in directory.logs or partition in directory.damaged:
                return directory
        return None

    def __iter__(self) -> Iterator[PartitionLog]:
        """All logs that were loaded or created."""
        for directory in self.directories:
            yield from directory

    @property
    def online(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.home.health.is_online]

    @property
    def offline_paths(self) -> list[str]:
        return [each.path for each in self.directories if not each.home.health.is_online]

    @property
    def are_all_there(self) -> bool:
        """Whether no directory is missing or offline."""
        return not self.missing_ids and not self.offline_paths

    @property
    def damaged(self) -> dict[TopicPartition, str]:
        """Reason by partition; each must be fetched again or repaired by the operator."""
        return {
            partition: reason
            for each in self.directories
            for partition, reason in each.damaged.items()
        }

    @property
    def clean_broker_epoch(self) -> int | None:
        """The broker epoch that stopped cleanly here; None unless all directories agree on it."""
        epochs = {each.clean_broker_epoch for each in self.directories}
        return epochs.pop() if len(epochs) == 1 and not self.missing_ids else None

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The checkpointed high watermark; None means the log start, never the end (R-26)."""
        directory = self.directory_of(partition)
        return None if directory is None else directory.checkpoints.high_watermarks.get(partition)

    @property
    def last_wall_ms(self) -> int | None:
        """The latest trusted wall-clock time that was saved, milliseconds; None without one."""
        found = [each.checkpoints.wall_ms for each in self.online]
        return max((wall_ms for wall_ms in found if wall_ms is not None), default=None)

    @property
    def have_no_room(self) -> bool:
        """Whether any of them refuses appends for lack of space."""
        return any(each.home.health.has_no_room for each in self.online)

    def rooms(self) -> list[tuple[int, list[TopicPartition]]]:
        """The room of each online directory (see ``free_space.py``) and its partitions."""
        return [(each.home.health.gauge.room, [*each.logs, *each.damaged]) for each in self.online]

    def on_failure(self, callback: Callable[[str], object]) -> None:
        """Call back synchronously with the path of each directory that is or goes offline."""
        for each in self.directories:
            each.home.health.on_failure(partial(callback, each.path))

    # -- partitions --------------------------------------------------------------------------

    async def choose(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Select the copy to serve, once the topic id of the partition is known."""
        await self.doubles.choose(partition, topic_id, self.directory_of(partition))

    async def create(
        self, partition: TopicPartition, topic_id: Uuid | None, *, is_new: bool
    ) -> PartitionLog:
        """Return the partition's log; create it if there is none.

        It is created in the preferred directory, or else in the one with the fewest partitions.

        ``is_new``: the partition never existed on this broker. Raises
        KafkaError(KAFKA_STORAGE_ERROR) if it may live on a directory that is offline or missing, if
        its log is damaged, or if the disk fails; KafkaError(INCONSISTENT_TOPIC_ID) for a log of an
        earlier topic of that name."""
        found = self.directory_of(partition)
        if found is not None:
            if partition in found.damaged:
                raise storage_error(found.damaged[partition])
            log = found.logs[partition]
            if topic_id is not None and log.topic_id is None:
                await found.set_topic_id(log, topic_id)
            elif topic_id is not None and log.topic_id != topic_id:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"{log.directory} belongs to an earlier topic of the same name",
                )
            return log
        if not is_new and not self.are_all_there:
            raise storage_error(
                f"{partition} may live on a data directory that is not available: "
                f"{', '.join(self.offline_paths) or 'one of log.dirs is empty or was left out'}"
            )
        online = self.online
        if not online:
            raise storage_error("no data directory is online")
        assert partition not in self._creating
        self._creating.add(partition)
        try:
            log = await self._place_for(partition, online).create(partition, topic_id)
            self.preferred.pop(partition, None)
            return log
        finally:
            self._creating.discard(partition)

    def _place_for(self, partition: TopicPartition, online: Sequence[LogDirectory]) -> LogDirectory:
        preferred = self.preferred.get(partition)
        for each in online:
            if each.path == preferred:
                return each
        # A directory low on space would keep refusing writes.
        return min(
            online, key=lambda each: (each.home.health.is_low_on_space, each.partition_count)
        )

    async def set_aside(self, partition: TopicPartition) -> None:
        """Keep the log of a deleted topic under another name (S-32, C-22).

        On an offline directory it is only forgotten, and found again at the next start."""
        await self.futures.drop(partition)
        directory = self.directory_of(partition)
        assert directory is not None
        if not directory.home.health.is_online:
            directory.take_out(partition)
            return
        kept_as = await directory.set_aside(partition)
        logger.warning("%s-%d belongs to a deleted topic: kept as %s", *partition, kept_as)

    async def set_spoiled_aside(self, partition: TopicPartition) -> bool:
        """Keep a damaged log under another name, so that it can be fetched again (S-03).

        False if it is not damaged, or could not be read for a temporary reason. Raises
        KafkaError(KAFKA_STORAGE_ERROR)."""
        directory = self.directory_of(partition)
        if directory is None or partition not in directory.spoiled:
            return False
        directory.home.health.ensure_online()
        kept_as = await directory.set_aside(partition)
        logger.warning(
            "%s-%d is damaged and will be fetched again: kept as %s", *partition, kept_as
        )
        return True

    async def delete(self, partition: TopicPartition) -> None:
        """Remove a partition's log, if there is one."""
        self.preferred.pop(partition, None)
        await self.futures.drop(partition)
        directory = self.directory_of(partition)
        await self.doubles.give_up(partition)
        if directory is None:
            return
        if not directory.home.health.is_online:
            # Nothing can be removed there; forget it, so that a new topic of that name can start.
            directory.take_out(partition)
        elif partition in directory.damaged:
            await directory.set_aside(partition)
        else:
            await directory.delete(partition)

    async def delete_topic(self, partition: TopicPartition, topic_id: Uuid) -> int:
        """Remove all copies of that topic's partition; returns how many were removed.

        Copies of another or an unknown topic of that name stay, as do those on an offline
        directory. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        count = await self.doubles.delete(partition, topic_id)
        count += await self.futures.forget_deleted(partition, topic_id)
        if any(topic_id_in(each, partition) == topic_id for each in self.directories):
            # First, because a move that is about to end changes the log's directory.
            self.preferred.pop(partition, None)
            await self.futures.drop(partition)
        for directory in self.directories:
            if topic_id_in(directory, partition) != topic_id:
                continue
            if directory.home.health.is_online:
                await directory.delete(partition)
                count += 1
            else:
                directory.take_out(partition)
        return count

    # -- housekeeping ------------------------------------------------------------------------

    async def checkpoint(self, high_watermarks: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Save recovery points, log starts and the known high watermarks; called every few seconds.

        A directory that fails goes offline; nothing is raised."""
        for each in self.online:
            saved = each.checkpoints
            try:
                await saved.save_recovery_points()
                await saved.save_log_starts()
                # Not earlier: a partition may be deleted and recreated during either write, and the
                # old high watermark is invalid for the new one.
                known = high_watermarks()
                for partition in each.logs:
                    high_watermark = known.get(partition)
                    # Partitions without a role yet keep the value from the disk.
                    if high_watermark is not None:
                        saved.high_watermarks[partition] = high_watermark
                await saved.save_high_watermarks()
            except KafkaError as error:
                logger.error("%s", error.message)

    async def save_wall_clock(self, wall_ms: int) -> None:
        """Save the time in every directory, for the next start; nothing is raised."""
        for each in self.online:
            try:
                await each.checkpoints.save_wall_clock(wall_ms)
            except KafkaError as error:
                logger.error("%s", error.message)

    async def tidy(self, now_ms: float) -> None:
        """Delete files that are due, check the free space, and close unused files.

        Called about every second."""
        for each in self.online:
            try:
                await each.home.late_deletions.delete_due(now_ms)
            except KafkaError as error:
                logger.error("%s", error.message)
            each.home.health.check_space(now_ms)
        open_segments = self.directories[0].home.open_segments
        open_segments.trim()
        if now_ms >= self._release_due_ms:
            self._release_due_ms = now_ms + IDLE_MS
            open_segments.release_idle()

    async def close(self, broker_epoch: int) -> bool:
        """Close everything; returns whether all directories were marked as cleanly stopped."""
        config = self.config
        clean = await asyncio.gather(
            *(
                each.close(config.broker_id, broker_epoch, config.workers_per_directory)
                for each in self.online
            )
        )
        for lock in self._locks:
            lock.release()
        return all(clean) and len(clean) == len(self.directories)

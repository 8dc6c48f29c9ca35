"""Moving replicas to other data directories of this broker while they are written and read.

AlterReplicaLogDirs comes in here. For each directory that receives replicas there is one task,
which copies a little of each in turn, under ``replica.alter.log.dirs.io.max.bytes.per.second``, and
exchanges a log for its copy as soon as that is complete (log/directories/future_logs.py). When
the broker stops, the ``-future`` directories stay; the next start makes those copies again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.directories.move_decision import MoveDecision, ReplicaLocation, decide_move
from ottla.broker.directories.replica_copy import ReplicaCopy
from ottla.broker.engine.tasks import to_its_end
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.log.directories.directory import LogDirectory
    from ottla.broker.log.directories.future_logs import Future
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.partitions.partitions import Partitions
    from ottla.broker.partitions.throttles import Throttle
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.moves")

# What a move may copy before the next one has its turn.
TURN_BYTES = 1024 * 1024
# How long a move rests that has met a full disk, or a log that grows faster than it is copied.
REST_MS = 5_000.0
# How soon a replica that comes to be served is found to have been moved when the broker stopped.
RESUME_MS = 1_000.0
HOLD_MS = 500.0
_BUSY_MS = 10.0


@dataclass(slots=True)
class _Move:
    """One replica on its way."""

    future: Future
    copying: ReplicaCopy
    due_ms: float = 0.0


class ReplicaMoves:
    """Owned by the server; its tasks end before the logs are closed."""

    def __init__(
        self,
        partitions: Partitions,
        metadata: MetadataCache,
        throttle: Throttle,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._partitions = partitions
        self._metadata = metadata
        self._throttle = throttle
        self._clock = clock
        self._tasks = tasks
        self._moves: dict[TopicPartition, _Move] = {}
        # By the directory that receives.
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._lock = asyncio.Lock()

    def start(self) -> None:
        """Go on with what an earlier life of this broker was moving."""
        if self._logs.futures.unfinished:
            self._tasks.spawn("interrupted moves", self._resume())

    @property
    def _logs(self) -> LogDirectories:
        return self._partitions.logs

    # -- requests ----------------------------------------------------------------------------

    async def alter(self, partition: TopicPartition, path: str) -> ErrorCode:
        """Move a replica into the data directory, or remember that for when it is made.

        The answer comes when the move has begun. To its present directory: give up the move."""
        async with self._lock:
            decision = self._decide(partition, path)
            try:
                await self._carry_out(decision, partition, path)
            except KafkaError as error:
                logger.error("%s-%d is not moved to %s: %s", *partition, path, error.message)
                return error.code
            return decision.error

    def _decide(self, partition: TopicPartition, path: str) -> MoveDecision:
        runtime = self._partitions.find(*partition)
        directory = self._logs.directory_of(partition)
        future = self._logs.futures.find(partition)
        standing = ReplicaLocation(
            name=f"{partition.topic}-{partition.partition}",
            is_in_cluster=self._metadata.partition(*partition) is not None,
            is_offline=self._partitions.is_offline(*partition),
            is_served=runtime is not None,
            current=None if directory is None else directory.path,
            future=None if future is None else future.target.path,
        )
        directories = {one.path: one.home.health.is_online for one in self._logs.directories}
        return decide_move(standing, path, directories)

    async def _carry_out(
        self, decision: MoveDecision, partition: TopicPartition, path: str
    ) -> None:
        if decision.cancels:
            await self._cancel(partition)
        if decision.remembers:
            self._logs.preferred[partition] = path
        if decision.begins:
            await self._begin(partition, path)

    async def _cancel(self, partition: TopicPartition) -> None:
        self._moves.pop(partition, None)
        await self._logs.futures.drop(partition)
        logger.info("the move of %s-%d to another data directory is given up", *partition)

    async def _begin(self, partition: TopicPartition, path: str) -> None:
        source = self._logs.directory_of(partition)
        log = self._logs.get(partition)
        if source is None or log is None:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        future = await self._logs.futures.begin(log, source, self._directory(path))
        self._logs.preferred.pop(partition, None)
        self._moves[partition] = _Move(future, ReplicaCopy(future))
        logger.info("%s-%d is being moved from %s to %s", *partition, source.path, path)
        worker = self._workers.get(path)
        if worker is None or worker.done():
            self._workers[path] = self._tasks.spawn(f"moves to {path}", self._work(path))

    def _directory(self, path: str) -> LogDirectory:
        return next(one for one in self._logs.directories if one.path == path)

    async def _resume(self) -> None:
        while unfinished := self._logs.futures.unfinished:
            for partition in unfinished:
                path = self._unfinished_target(partition)
                if path is None:
                    continue
                error = await self.alter(partition, path)
                if error is ErrorCode.NONE:
                    # Nothing is left of it if it lies there already.
                    await self._logs.futures.forget_unfinished(partition)
            await self._clock.sleep(RESUME_MS)

    def _unfinished_target(self, partition: TopicPartition) -> str | None:
        """Where a served replica was being moved; None for a copy of an earlier topic's replica,
        whose name this topic has now."""
        log = self._logs.get(partition)
        if self._partitions.find(*partition) is None or log is None or log.topic_id is None:
            return None
        try:
            return self._logs.futures.unfinished_target(partition, log.topic_id)
        except KafkaError as error:
            logger.error("the move of %s-%d is not resumed: %s", *partition, error.message)
            return None

    # -- copying -----------------------------------------------------------------------------

    async def _work(self, path: str) -> None:
        """Copy into one directory until nothing is to be moved there any more."""
        while moves := [
            (partition, move)
            for partition, move in self._moves.items()
            if move.future.target.path == path
        ]:
            has_copied = False
            for partition, move in moves:
                if self._is_over(partition, move):
                    continue
                if move.due_ms <= self._clock.now_ms():
                    has_copied = await self._turn(partition, move) or has_copied
            if not has_copied:
                await self._clock.sleep(_BUSY_MS)

    def _is_over(self, partition: TopicPartition, move: _Move) -> bool:
        """Whether there is nothing to do any more; then the move is forgotten."""
        future = move.future
        if self._moves.get(partition) is not move:
            return True
        if self._logs.futures.find(partition) is not future:
            # The replica was deleted.
            del self._moves[partition]
            return True
        for directory in (future.target, future.source):
            if not directory.home.health.is_online:
                logger.warning(
                    "the move of %s-%d stops: data directory %s has failed",
                    *partition,
                    directory.path,
                )
                self._logs.futures.abandon(partition)
                del self._moves[partition]
                return True
        return False

    async def _turn(self, partition: TopicPartition, move: _Move) -> bool:
        """Whether something was copied, or the move has come to its end."""
        try:
            copied_bytes = 0
            while copied_bytes < TURN_BYTES and not move.copying.is_complete:
                hold_ms = self._throttle.hold_ms()
                if hold_ms > 0:
                    # In pieces: the rate may be raised, and the move given up, meanwhile.
                    await self._clock.sleep(min(hold_ms, HOLD_MS))
                    return True
                slice_bytes = await move.copying.copy_slice()
                self._throttle.spend(slice_bytes)
                copied_bytes += slice_bytes
                if not slice_bytes:
                    break
            if move.copying.is_near:
                await self._finish(partition, move)
            return copied_bytes > 0
        except KafkaError as error:
            self._rest(partition, move, error.message)
        except CorruptLogError as error:
            logger.error("%s-%d cannot be moved: %s", *partition, error)
            await self._cancel(partition)
        return False

    async def _finish(self, partition: TopicPartition, move: _Move) -> None:
        # Most of what is not durable yet, before the log's flushes have to wait for it.
        await move.future.copy.flush()
        is_done = False

        async def exchange() -> None:
            nonlocal is_done
            is_done = await self._logs.futures.exchange(move.future, move.copying)

        await to_its_end(exchange())
        if is_done:
            self._moves.pop(partition, None)
            logger.info("%s-%d was moved to %s", *partition, move.future.target.path)
        else:
            self._rest(partition, move, "it grows faster than it is copied")

    def _rest(self, partition: TopicPartition, move: _Move, reason: str) -> None:
        if not self._is_over(partition, move):
            logger.warning("the move of %s-%d waits: %s", *partition, reason)
            move.due_ms = self._clock.now_ms() + REST_MS
